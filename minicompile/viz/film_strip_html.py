"""The film strip as HTML: a slider over the steps, self-contained, several in one notebook.

Goes in: a FilmStrip.  Comes out: one <div> with the text form in it and the steps as JSON, and a script that turns it
into the slider.  Where scripts do not run (a notebook that is not trusted, GitHub) the text form stays.
Mirrors nothing in PyTorch.  Taught in chapter 03.

There are no ids: each script takes hold of every strip on the page that has none yet, so strips cannot clash.
"""

import json
from html import escape

from . import style
from .trackers import KIND_COLOURS

MOST_STEPS = 3000  # in the slider; the text form has them all

STYLE = f"""
.mc-strip {{ font: 13px/1.4 {style.SANS}; color: {style.INK}; background: {style.CARD}; border: 1px solid {style.RULE};
  border-radius: 8px; padding: 10px 14px; max-width: 1080px; box-sizing: border-box; }}
.mc-strip * {{ box-sizing: border-box; }}
.mc-strip pre, .mc-strip .mc-code {{ font: 12px/1.5 {style.MONO}; color: {style.INK}; background: none; margin: 0;
  white-space: pre; overflow: auto; }}
.mc-strip .mc-bar {{ display: flex; gap: 8px; align-items: center; }}
.mc-strip .mc-bar input {{ flex: 1; accent-color: {style.STAGE_COLOURS["capture"]}; }}
.mc-strip button {{ font: 14px {style.SANS}; color: {style.INK}; background: #f3f5f7; border: 1px solid {style.RULE};
  border-radius: 5px; padding: 2px 10px; cursor: pointer; }}
.mc-strip .mc-where {{ min-height: 44px; margin: 6px 0; }}
.mc-strip .mc-where b {{ margin-right: 18px; }}
.mc-strip .mc-note {{ color: #b04300; }}
.mc-strip .mc-grid {{ display: grid; grid-template-columns: 44fr 56fr; gap: 8px 18px; }}
.mc-strip h5 {{ font: bold 11px {style.SANS}; color: {style.MUTED}; margin: 6px 0 3px; padding: 0; }}
.mc-strip .mc-code {{ border: 1px solid {style.RULE}; border-radius: 5px; padding: 3px 0; }}
.mc-strip .mc-code > div {{ padding: 0 8px; min-height: 18px; width: max-content; min-width: 100%; }}
.mc-strip .mc-source {{ height: 170px; }}
.mc-strip .mc-bytecode {{ height: 290px; }}
.mc-strip .mc-graph {{ height: 140px; }}
.mc-strip .mc-effects {{ height: 62px; }}
.mc-strip .mc-stack, .mc-strip .mc-locals {{ height: 106px; overflow: auto; }}
.mc-strip .mc-on {{ background: #fff1b8; }}
.mc-strip .mc-new {{ background: {KIND_COLOURS["tensor"]}; }}
.mc-strip .mc-chip {{ display: inline-block; font: 12px/1.4 {style.MONO}; border: 1px solid {style.RULE};
  border-radius: 4px; padding: 0 6px; margin: 1px 6px 2px 0; color: {style.INK}; }}
.mc-strip .mc-muted {{ color: {style.MUTED}; font-size: 11px; }}
""" + "".join(f".mc-strip .mc-{kind} {{ background: {colour}; }}\n" for kind, colour in KIND_COLOURS.items())

SCRIPT = """
(function () {
  function add(parent, tag, name, text) {
    var e = document.createElement(tag);
    if (name) e.className = name;
    if (text !== undefined) e.textContent = text;
    parent.appendChild(e);
    return e;
  }
  function lines(box, texts, on) {
    box.textContent = "";
    texts.forEach(function (text, k) { add(box, "div", k === on ? "mc-on" : "", text); });
    var lit = box.children[on];
    if (lit) box.scrollTop = lit.offsetTop - box.offsetTop - box.clientHeight / 2;
  }
  function chip(box, value) { add(box, "span", "mc-chip mc-" + value[0], value[1]); }
  document.querySelectorAll(".mc-strip:not([data-ready])").forEach(function (root) {
    root.setAttribute("data-ready", "");
    var film = JSON.parse(root.getAttribute("data-film")), last = film.steps.length - 1;
    root.querySelector("pre").style.display = "none";
    var bar = add(root, "div", "mc-bar"), buttons = {};
    ["first", "back", "forward", "last"].forEach(function (name) {
      if (name === "forward") add(bar, "input");
      buttons[name] = add(bar, "button", "", { first: "|<", back: "<", forward: ">", last: ">|" }[name]);
      buttons[name].setAttribute("aria-label", name + " step");
    });
    var slider = bar.querySelector("input");
    slider.type = "range"; slider.min = 0; slider.max = last; slider.value = 0;
    slider.setAttribute("aria-label", "step");
    var where = add(root, "div", "mc-where"), grid = add(root, "div", "mc-grid");
    var left = add(grid, "div"), right = add(grid, "div");
    var heads = {}, boxes = {};
    [["source", left], ["bytecode", left], ["stack", right], ["locals", right], ["graph", right],
     ["effects", right]].forEach(
      function (pair) {
        heads[pair[0]] = add(pair[1], "h5", "");
        var code = pair[0] === "stack" || pair[0] === "locals" ? "" : "mc-code ";
        boxes[pair[0]] = add(pair[1], "div", code + "mc-" + pair[0]);
      });
    var legend = add(root, "div", "mc-muted");
    film.kinds.forEach(function (kind) { chip(legend, [kind, kind]); });
    function show(k) {
      k = Math.max(0, Math.min(last, k));
      slider.value = k;
      var step = film.steps[k], code = film.codes[step.code], frame = film.frames[step.frame];
      where.textContent = "";
      add(where, "b", "", "step " + (k + 1) + " of " + (last + 1) + ":  " + step.text);
      add(where, "span", "mc-muted", step.path + (step.depth ? "   (inlined, depth " + step.depth + ")" : ""));
      if (step.note) add(where, "div", "mc-note", step.note);
      heads.source.textContent = "source of " + code.name;
      lines(boxes.source, code.source, step.line === null ? -1 : step.line - code.first);
      heads.bytecode.textContent = "bytecode of " + code.name;
      lines(boxes.bytecode, code.listing, step.index);
      var owner = step.shown === step.code ? "" : " of " + film.codes[step.shown].name;
      heads.stack.textContent = "stack" + owner + ", after the instruction (top first)";
      boxes.stack.textContent = "";
      step.stack.slice().reverse().forEach(function (v) { chip(add(boxes.stack, "div"), film.values[v]); });
      heads.locals.textContent = "locals" + owner;
      boxes.locals.textContent = "";
      step.locals.forEach(function (pair) {
        var row = add(boxes.locals, "div");
        add(row, "span", "mc-chip", pair[0]);
        chip(row, film.values[pair[1]]);
      });
      heads.graph.textContent = "FX graph of " + frame.title;
      boxes.graph.textContent = "";
      frame.nodes.forEach(function (node) {
        if (node[1] > k) return;
        var e = add(boxes.graph, "div", node[1] === k ? "mc-new" : "", node[0]);
        if (node[1] === k) boxes.graph.scrollTop = e.offsetTop - boxes.graph.offsetTop - 60;
      });
      heads.effects.textContent = "recorded side effects, to be replayed";
      lines(boxes.effects, step.effects, -1);
    }
    slider.addEventListener("input", function () { show(+slider.value); });
    buttons.first.addEventListener("click", function () { show(0); });
    buttons.back.addEventListener("click", function () { show(+slider.value - 1); });
    buttons.forward.addEventListener("click", function () { show(+slider.value + 1); });
    buttons.last.addEventListener("click", function () { show(last); });
    show(film.start);
  });
})();
"""


def film_strip_html(strip):
    """The whole cell output."""
    film = json.dumps(film_data(strip), separators=(",", ":"))
    alt = f"Film strip of symbolic execution, {len(strip)} steps"
    return (
        f'<style>{STYLE}</style><div class="mc-strip" role="group" aria-label="{alt}" data-film="{escape(film)}">'
        f"<pre>{escape(repr(strip))}</pre></div><script>{SCRIPT}</script>"
    )


def film_data(strip):
    """What the script draws.  Equal descriptions are stored once, in `values`."""
    codes, values = {}, {}

    def number(table, key):
        return table.setdefault(key, len(table))

    frames, steps = [], []
    for frame in strip.frames:
        first, path = len(steps), []
        frames.append({"title": frame.title, "nodes": [[text, first + born] for text, born in frame.nodes]})
        for step in frame.steps:
            path = [*path[: step.depth], step.code.co_name]
            steps.append(
                {
                    "frame": len(frames) - 1,
                    "code": number(codes, step.code),
                    "shown": number(codes, step.shown or step.code),
                    "path": " > ".join(path),
                    "stack": [number(values, value) for value in step.stack],
                    "locals": [[name, number(values, value)] for name, value in step.locals.items()],
                    **{name: getattr(step, name) for name in ("index", "line", "text", "depth", "effects", "note")},
                }
            )
    kept = steps[:MOST_STEPS]
    operations = [born for frame in frames for text, born in frame["nodes"] if not text.startswith("input")]
    if len(steps) > len(kept):
        kept[-1]["note"] = f"{len(steps) - len(kept)} more steps are in the text form (print the strip)"
    return {
        "kinds": list(KIND_COLOURS),
        "values": list(values),
        "codes": [strip.code_data(code) for code in codes],
        "frames": frames,
        "steps": kept,
        "start": min([*operations, len(kept) - 1]),  # the first frame of the film has little to show
    }
