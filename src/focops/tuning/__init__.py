"""Search of hyper-parameters under constraints: `space` is what varies, `search` what is tried next and what won."""
