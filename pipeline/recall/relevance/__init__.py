"""One judge of relevance: how likely is it that something has to do with what is asked?

A probability for whatever a context or a search may show, learned on data (`backscroll dev fit`) and the same for every
embedding model and language. Two questions are asked:

- *Does the chat know?* `judge.evidence` says it of a question, from how its best messages match: `strong`, `weak` or
  `none`.
- *Has this to do with it?* `judge.messages` orders messages, each beside the best of its question; `judge.texts` says
  it of memories and passages, of which there are few.

`signals` is what the judge looks at, `logistic` how it weighs that, and `fitted.toml` the weights. All of it is pure.
"""
