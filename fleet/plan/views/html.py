"""Plans as one HTML file: nothing to load, no script, light or dark as the reader's system is, readable on a phone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fleet.plan.effect import Effect, effect_of
from fleet.plan.step import Step, Verb, plan_hash
from fleet.plan.views.escape import escape_html, escape_lines
from fleet.plan.views.summary import LIVE_HEADER, PlanView, ViewHeader, destructive_steps, group_by_stack, summary_line
from fleet.plan.views.text import SIGNS, change_line, effect_text
from fleet.text import count_noun

# The page asks for nothing and may ask for nothing, should anything in it ever try.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1f2328; --dim: #59636e; --line: #d1d9e0; --card: #f6f8fa;
  --create: #1a7f37; --update: #9a6700; --delete: #cf222e; --forget: #8250df; --adopt: #0969da; }
@media (prefers-color-scheme: dark) { :root { --back: #0d1117; --text: #e6edf3; --dim: #9198a1; --line: #3d444d;
  --card: #151b23; --create: #3fb950; --update: #d29922; --delete: #f85149; --forget: #ab7df8; --adopt: #4493f8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 70rem; background: var(--back); color: var(--text);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin: 0 0 .25rem; } h2 { font-size: 1.1rem; margin: 1.5rem 0 .5rem; }
p { margin: .25rem 0; } .dim { color: var(--dim); } .sum { font-size: 1.1rem; font-weight: 600; }
code { font: .85rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.danger { border: 1px solid var(--delete); border-left-width: .4rem; border-radius: .4rem; padding: .5rem 1rem;
  margin: 1rem 0; } .danger h2 { color: var(--delete); margin-top: 0; } .danger ul { margin: 0; padding-left: 1.2rem; }
details, .problem { border: 1px solid var(--line); border-radius: .4rem; margin: .5rem 0; background: var(--card); }
summary, .problem { cursor: pointer; padding: .6rem 1rem; } .problem { cursor: auto; color: var(--delete); }
details[open] > summary { border-bottom: 1px solid var(--line); }
details > p { padding: .5rem 1rem 0; }
ol { list-style: none; margin: 0; padding: 0; } ol > li { padding: .6rem 1rem; border-top: 1px solid var(--line); }
ol > li:first-child { border-top: 0; } ul.fields { margin: .25rem 0 0; padding-left: 1.2rem; }
.tag { display: inline-block; border: 1px solid currentColor; border-radius: 1rem; padding: 0 .6rem; font-size: .8rem;
  font-weight: 600; margin-right: .4rem; } .where { font-size: .85rem; }
.create { color: var(--create); } .update, .record { color: var(--update); }
.delete, .conflict { color: var(--delete); } .forget { color: var(--forget); } .adopt { color: var(--adopt); }
.unchanged { color: var(--dim); } .said { font-weight: 600; } .bad { color: var(--delete); font-weight: 600; }
@media (max-width: 30rem) { body { padding: .6rem; } summary, .problem, ol > li { padding: .5rem .6rem; } }
@media print { details { break-inside: avoid; } }
""".strip()


def html_page(views: Iterable[PlanView], *, about: ViewHeader = LIVE_HEADER, title: str = "fleet preview") -> str:
    """Return the whole file. Clusters with few changes are open, others folded; destructive steps are above all."""
    views = list(views)
    digest = about.plan_hash or plan_hash(view.plan for view in views if view.plan)
    page_lines = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{escape_html(title)}: {escape_html(summary_line(views))}</title>",
        f"<style>\n{_STYLE}\n</style>",
        "</head>",
        "<body>",
        "<header>",
        f"<h1>{escape_html(title)}</h1>",
        f'<p class="sum">{escape_html(summary_line(views))}</p>',
        *_revision_lines(about),
        "</header>",
        "<main>",
        *_destructive_section(views),
        *(line for stack, stack_views in group_by_stack(views).items() for line in _stack_section(stack, stack_views)),
        *_remarks_section(about),
        "</main>",
        f'<footer><p class="dim">plan <code>{digest}</code></p></footer>',
        "</body>",
        "</html>",
        "",
    ]
    return "\n".join(page_lines)


def _revision_lines(about: ViewHeader) -> list[str]:
    if not about.base or not about.head:
        return ['<p class="dim">Compared with the clusters.</p>']
    base, head = (
        f"{escape_html(revision.name)} <code>{escape_html(revision.commit[:8])}</code>"
        for revision in (about.base, about.head)
    )
    how = "compared with the clusters" if about.depth == "live" else "git against git, no cluster asked"
    subject = f"<p>{escape_html(about.head.subject)}</p>" if about.head.subject else ""
    return [*([subject] if subject else []), f'<p class="dim">{head} merged into {base}; {how}.</p>']


def _destructive_section(views: Sequence[PlanView]) -> list[str]:
    dangerous = destructive_steps(views)
    if not dangerous:
        return []
    rows = [
        f"<li>{escape_html(danger.stack)} on {escape_html(danger.cluster)}: "
        f"<strong>{escape_html(danger.words)}</strong> "
        f"<code>{escape_html(str(danger.step.key))}</code></li>"
        for danger in dangerous
    ]
    title = count_noun(len(dangerous), "destructive change")
    return ['<section class="danger">', f"<h2>⚠ {title}</h2>", "<ul>", *rows, "</ul>", "</section>"]


def _stack_section(stack: str, views: Sequence[PlanView]) -> list[str]:
    return [f"<h2>{escape_html(stack)}</h2>", *(line for view in views for line in _plan_section(view))]


def _plan_section(view: PlanView) -> list[str]:
    error_lines = (
        [f'<div class="problem">{escape_html(view.cluster)}: {_text_block(view.problem)}</div>'] if view.problem else []
    )
    steps = sorted(view.steps(), key=lambda step: not effect_of(step).destructive)
    if not steps and not view.taken_from:
        why = escape_html(view.note or "no changes")
        no_changes = f'<p><strong>{escape_html(view.cluster)}</strong> <span class="dim">{why}</span></p>'
        return error_lines or [no_changes]
    takeover = f"<p>taken over from {escape_html(view.taken_from)}</p>" if view.taken_from else ""
    return [
        *error_lines,
        f"<details{' open' if len(steps) <= 20 else ''}>",
        f"<summary><strong>{escape_html(view.cluster)}</strong> {escape_html(summary_line([view]))}</summary>",
        *([takeover] if takeover else []),
        "<ol>",
        *(_step_item(step) for step in steps),
        "</ol>",
        "</details>",
    ]


def _step_item(step: Step) -> str:
    effect = effect_of(step)
    tag = f"{SIGNS[step.verb][0]} {_effect_tag(step, effect)}"
    parts = [f'<span class="tag {step.verb.value}">{tag}</span><code>{escape_html(str(step.key))}</code>']
    if step.source.file and step.verb is not Verb.UNCHANGED:
        parts.append(f' <span class="dim where">{escape_html(str(step.source))}</span>')
    notes = [("dim", step.reason)] if step.reason else []
    notes += [("bad", f"the server refuses it: {step.objection}")] if step.objection else []
    notes += [("said", meaning) for meaning in step.meanings]
    notes += [("bad", effect_text(step))] if effect.destructive and effect_text(step) else []
    parts += [f'<p class="{name}">{_text_block(text)}</p>' for name, text in notes]
    if step.changes:
        rows = "".join(f"<li><code>{escape_html(change_line(change))}</code></li>" for change in step.changes)
        parts.append(f'<ul class="fields">{rows}</ul>')
    return f"<li>{''.join(parts)}</li>"


def _effect_tag(step: Step, effect: Effect) -> str:
    """Return the verb, or the effect where that says more in few words."""
    long = effect.destructive or len(effect.words) > 40
    return escape_html(step.verb.value if long or step.verb in (Verb.CONFLICT, Verb.FORGET) else effect.words)


def _remarks_section(about: ViewHeader) -> list[str]:
    rows = [f"<li>{escape_html(remark)}</li>" for remark in about.remarks]
    return ["<h2>Besides</h2>", "<ul>", *rows, "</ul>"] if rows else []


def _text_block(text: str) -> str:
    return "<br>".join(escape_html(line) for line in escape_lines(text))
