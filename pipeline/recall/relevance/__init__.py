"""One judge of relevance: how likely is it that something has to do with what is asked?

A probability, learned on data (`backscroll dev fit --judge`), the same for every embedding model and language. Two
questions are asked:

- *Does the chat know?* `judge.evidence` says it of a question, from how its best messages match: `strong`, `weak` or
  `none`. The less likely, the fewer lines are worth their tokens.
- *Has this to do with it?* `judge.texts` says it of memories and passages, of which there are few: a wrong one costs
  twenty tokens, a missing one the answer.

`signals` is what the judge looks at, `logistic` how it weighs that, and `fitted.toml` the weights. All of it is pure.
"""
