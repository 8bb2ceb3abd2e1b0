from focops.envs.tasks import TASKS
from focops.studies.published import published


def test_the_papers_figures_are_found_by_task_and_algorithm():
    found = published("HalfCheetahSpeed-v0", "focops")
    assert (found.source, found.reward, found.cost, found.cost_interval) == ("the paper", 1612.2, 152.36, 1.55)
    assert (found.reward_text(), found.cost_text()) == ("1612 ± 26", "152.4 ± 1.6")
    assert published("AntCircle", "cpo").samples == "10M"


def test_the_papers_best_policies_on_unseen_seeds_are_figures_of_their_own():
    found = published("HopperSpeed-v0", "cpo", "unseen")
    assert (found.reward, found.reward_interval, found.cost, found.cost_interval) == (2749.9, 47.0, 52.34, 1.95)
    assert published("AntCircle", "cpo", "unseen") is None
    assert published("AntVelocity", "cpo", "unseen") is None


def test_a_velocity_task_has_omnisafes_figures_under_any_of_its_names():
    found = published("safety_gymnasium:SafetySwimmerVelocity-v1", "focops")
    assert found == published("SwimmerVelocity-v0", "focops")
    assert (found.source, found.reward_text(), found.cost_text()) == ("OmniSafe", "53.9", "29.8")
    assert all(published("AntVelocity", name).reward > 3000 for name in ("cpo", "ppo_lagrangian", "trpo_lagrangian"))


def test_what_was_not_published_is_none():
    assert published("PointCircle-v0", "focops") is None
    assert published("AntSpeed-v0", "cvar") is None


def test_every_published_task_is_one_of_ours():
    named = [name for name in TASKS if published(name, "focops")]
    assert len(named) == 8 + 6  # the paper's and OmniSafe's
