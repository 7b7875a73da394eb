"""Text without the secrets that a path in it may hold, for whatever leaves a job: tables, pages, terminal, logs. The work itself uses the path as it is.

    scheme://user:secret@host   user and secret      s3://***@bucket/lake
    ?name=value, &name=value    the value, where the name is that of a secret: token, sig, X-Amz-Signature, secret_key, password ...

Rather too much is masked than too little: a colon in the first part of a URI and an @ anywhere behind it are taken for user and secret, since a secret may hold slashes.
"""

import re

USER_AND_SECRET = re.compile(r'(\b[A-Za-z][A-Za-z0-9+.-]*:/{1,3})[^\s/:@"<>]*(?::|%3A)[^\s"<>]*@', re.IGNORECASE)
PARAMETER = re.compile(
    r"((?:[?&;]|%3F|%26)[\w.%-]*?(?:token|secret|password|passwd|pwd|sig|signature|credential|key|auth|sas|code)[\w.-]*?(?:=|%3D))"
    r'(?:(?!%26)[^\s&"<>])+',
    re.IGNORECASE,
)


def masked(text: str) -> str:
    """The text with *** in place of secrets.

    >>> masked("s3://AKIA1:a/b+c@lake/ranks cannot be read; abfss://c@a.dfs.core.windows.net/x?sv=2024&sig=abc%3D&se=2027")
    's3://***@lake/ranks cannot be read; abfss://c@a.dfs.core.windows.net/x?sv=2024&sig=***&se=2027'
    """
    return PARAMETER.sub(r"\1***", USER_AND_SECRET.sub(r"\1***@", text))
