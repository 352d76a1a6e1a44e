"""The doctor: reports what is wrong with a deployment, why it matters and what to do.

`collect` reads the facts and repairs; `diagnose` and its checks are pure. A healthy deployment gives no findings.
"""
