"""Uploading a run to the Hugging Face Hub."""

import os
from collections.abc import Mapping

from focops.errors import RunError, UsageError

MISSING = "a card needs huggingface_hub, which is not installed: pip install 'focops[hub]'"


def check_repo(repo: str) -> None:
    """Refuse a name that is not USER/REPO, and a machine that is not logged in; nothing is sent."""
    try:
        from huggingface_hub import get_token
        from huggingface_hub.errors import HFValidationError
        from huggingface_hub.utils import validate_repo_id
    except ImportError:
        raise UsageError(MISSING) from None
    try:
        validate_repo_id(repo)
    except HFValidationError as error:
        raise UsageError(f"--push is {repo!r}; it must be USER/REPO ({error})") from None
    if repo.count("/") != 1:
        raise UsageError(f"--push is {repo!r}; it must be USER/REPO")
    if not get_token():
        raise UsageError(
            "--push needs a token of the Hub with the right to write: run `hf auth login`, or set HF_TOKEN; tokens are"
            " made at https://huggingface.co/settings/tokens"
        )


def upload(repo: str, files: Mapping[str, bytes]) -> str:
    """Make the repository if there is none, and put the files into it as one commit; its address."""
    from huggingface_hub import CommitOperationAdd, HfApi
    from huggingface_hub.errors import HfHubHTTPError

    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"), library_name="focops")
    try:
        address = api.create_repo(repo, exist_ok=True)
        additions = [CommitOperationAdd(name, data) for name, data in files.items()]
        api.create_commit(repo, additions, commit_message="Upload a policy of focops")
    except HfHubHTTPError as error:
        status = error.response.status_code
        why = {401: "the token is not valid", 403: "the token may not write there"}.get(status, "")
        said = error.server_message or str(error).splitlines()[0]
        raise RunError(
            f"{api.endpoint} refused the upload to {repo} with status {status}{f' ({why})' * bool(why)}: {said}. The"
            " card is written; mend that and push again"
        ) from error
    except Exception as error:  # of the library that its version makes connections with
        said = f"{type(error).__name__}: {error}"
        raise RunError(f"the upload to {api.endpoint} failed: {said}. The card is written; push again later") from error
    return str(address)
