"""What the page of a context looks like, on a desk and on a phone, in the light and in the dark."""

# As many as a message's score has parts: no two of them look alike.
HUES = tuple(
    "#3b82f6 #f59e0b #10b981 #ef4444 #8b5cf6 #06b6d4 #84cc16 #ec4899 #a16207 #64748b"
    " #1d4ed8 #f472b6 #065f46 #fb923c #7dd3fc #6b21a8 #be123c #0f766e #c4b5a0 #d946ef #bef264".split()
)
STYLE = """
:root { color-scheme: light dark; --back: #fff; --front: #1c2024; --soft: #5b6470; --line: #d9dde3; --well: #eef1f4;
  --pick: #0b6bcb; --find: #d97706; --warn: #b03a06 }
@media (prefers-color-scheme: dark) { :root { --back: #15181c; --front: #e6e8eb; --soft: #9aa3ad; --line: #333a42;
  --well: #23292f; --pick: #6cb6ff; --find: #fbbf24; --warn: #fb923c } }
body { background: var(--back); color: var(--front); font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto;
  max-width: 75rem; padding: 0 1rem }
h1 { font-size: 1.5rem; line-height: 1.25; overflow-wrap: anywhere } h2 { font-size: 1.1rem; margin: 2.5rem 0 .5rem }
p { overflow-wrap: anywhere } small, .soft { color: var(--soft) } .warn { color: var(--warn) }
.num { font-variant-numeric: tabular-nums; text-align: right; white-space: nowrap } .nowrap { white-space: nowrap }
table { border-collapse: collapse; width: 100% } th { color: var(--soft); font-weight: normal; text-align: left }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .8rem .3rem 0; vertical-align: top }
th { white-space: nowrap } td:last-child { padding-right: 0 } td.text { overflow-wrap: anywhere; width: 99% }
.short td:last-child { vertical-align: middle; width: 60% } td.made { min-width: 11rem }
pre { background: var(--well); overflow-wrap: anywhere; padding: 1rem; white-space: pre-wrap }
tr.out td { color: var(--soft) } tr.out .bar { opacity: .6 }
.bar { background: var(--well); display: flex; height: .9rem; margin: .3rem 0; min-width: 6rem }
.bar i { display: block } .less { outline: 1px dashed var(--warn); outline-offset: -1px }
.key span { display: inline-block; margin-right: 1rem } .key i { display: inline-block; height: .7rem;
  margin-right: .35rem; width: .7rem }
svg { background: var(--well); display: block; height: 6rem; width: 100% }
rect { fill: var(--soft); opacity: .5 } rect.found { fill: var(--find); opacity: 1 }
rect.picked { fill: var(--pick); opacity: 1 } i.none { background: var(--soft); opacity: .5 }
i.found { background: var(--find) } i.picked { background: var(--pick) }
.ends { display: flex; justify-content: space-between } summary { cursor: pointer } td summary { list-style: none }
@media (max-width: 45rem) {
  .short th, .short td { padding-right: .4rem } .short td:last-child { width: 30% } .short .bar { min-width: 3rem }
  .hits, .hits tbody { display: block } .hits thead { display: none }
  .hits tr { border-bottom: 1px solid var(--line); display: flex; flex-wrap: wrap; gap: 0 .8rem; padding: .4rem 0 }
  .hits td { border: 0; padding: 0 } .hits td.text, .hits td.made { flex: 1 0 100%; min-width: 0; width: auto }
}
""" + "".join(f".c{n} {{ background: {hue} }}\n" for n, hue in enumerate(HUES))
