"""Says what is wrong with a deployment, why it matters and what to do: pure functions of facts that others collect.

Nothing here asks a server. A healthy deployment gives no findings at all.
"""
