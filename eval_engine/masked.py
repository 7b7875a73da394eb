"""Masks secrets of paths in text that leaves a job: tables, page, terminal, log.

    scheme://user:secret@host   user and secret are masked: s3://***@bucket/lake
    ?name=value, &name=value    the value is masked if the name is that of a secret: token, sig, X-Amz-Signature ...

The job itself uses the path unmasked. In case of doubt more is masked: after a colon in the first part of a URI,
everything up to an @ counts as the secret, because a secret may contain slashes.
"""

import re

USER_AND_SECRET = re.compile(r'(\b[A-Za-z][A-Za-z0-9+.-]*:/{1,3})[^\s/:@"<>]*(?::|%3A)[^\s"<>]*@', re.IGNORECASE)
PARAMETER = re.compile(
    r"((?:[?&;]|%3F|%26)[\w.%-]*?"
    r"(?:token|secret|password|passwd|pwd|sig|signature|credential|key|auth|sas|code)[\w.-]*?(?:=|%3D))"
    r'(?:(?!%26)[^\s&"<>])+',
    re.IGNORECASE,
)


def masked(text: str) -> str:
    """The text with *** in place of secrets.

    >>> masked("s3://AKIA1:a/b+c@lake/ranks is gone; abfss://c@a.dfs.core.windows.net/x?sv=2024&sig=abc%3D")
    's3://***@lake/ranks is gone; abfss://c@a.dfs.core.windows.net/x?sv=2024&sig=***'
    """
    return PARAMETER.sub(r"\1***", USER_AND_SECRET.sub(r"\1***@", text))
