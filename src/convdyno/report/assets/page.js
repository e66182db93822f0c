"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const cells = data.cells;
  const total = cells.id.length;
  const STEP = 30, PRINTED = 1000;

  const value = (column, i) => {
    const found = cells[column];
    return found.names ? found.names[found.codes[i]] : found[i];
  };
  const cellsOf = (count) => `${count} cell${count === 1 ? "" : "s"}`;
  const make = (tag, properties = {}, ...children) => {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...children.filter((child) => child !== null && child !== ""));
    return node;
  };

  // The table.
  const COLUMNS = {
    network: { className: "id long" },
    engine: { className: "id" },
    mode: { className: "id" },
    precision: { className: "id" },
    batch: { number: true, show: (i) => {
      const each = cells.batch[i], all = cells.global_batch[i];
      return all === each ? String(each) : [String(each), make("span", { className: "sub", title: `${cells.devices[i]} devices`, textContent: `×${cells.devices[i]} = ${all}` })];
    } },
    settings: { className: "bare long" },
    host: { className: "long" },
    images_per_second: { number: true, first: "descending", className: "rate", show: (i) => {
      if (cells.images_per_second[i] === null) return "";
      const ends = value("between_told", i) || "no interval";
      return [make("b", { textContent: value("images_per_second_told", i) }), make("span", { className: "sub", textContent: ends })];
    } },
    share_of_peak: { number: true, first: "descending", show: (i) => value("share_of_peak_told", i) },
    images_per_joule: { number: true, first: "descending", show: (i) => value("images_per_joule_told", i) },
    memory_bytes: { number: true, show: (i) => value("memory_bytes_told", i) },
    status: { className: "bare", show: (i) => {
      const status = value("status", i);
      const kind = { ok: "ok", interrupted: "doubtful", disturbed: "doubtful" }[status] ?? "bad";
      return make("span", { className: `chip ${kind}`, textContent: status });
    } },
    created: { className: "bare date", first: "descending", show: (i) => value("created", i).slice(0, 10) },
  };
  const shown = data.columns;
  const opened = new Set();
  let order = [...Array(total).keys()], visible = order, sorted = null, room = STEP;

  const head = () => {
    const row = make("tr", {}, make("th", { className: "toggle" }));
    for (const name of shown) {
      const column = COLUMNS[name];
      const button = make("button", { type: "button", textContent: data.titles[name] });
      button.addEventListener("click", () => sortBy(name));
      const cell = make("th", { className: `sortable${column.number ? " n" : ""}`, scope: "col" }, button);
      cell.dataset.column = name;
      row.append(cell);
    }
    $("head").replaceChildren(row);
    mark();
  };
  const mark = () => {
    // In place, so that whoever sorts by keys is still at the same heading.
    for (const cell of document.querySelectorAll("#head th.sortable")) {
      const name = cell.dataset.column;
      const way = sorted && sorted.name === name ? sorted.way : null;
      const next = way === first(name) ? other(first(name)) : first(name);
      cell.setAttribute("aria-sort", way ?? "none");
      cell.firstChild.title = `sort by ${data.titles[name]}, ${next}`;
    }
  };
  const first = (name) => COLUMNS[name].first ?? "ascending";
  const other = (way) => (way === "ascending" ? "descending" : "ascending");
  const fact = (name, text) => (text ? [make("dt", { textContent: name }), make("dd", {}, ...[].concat(text))] : []);
  const details = (i) => {
    const list = make("dl", {},
      ...fact("to repeat it", make("code", { textContent: value("command", i) })),
      ...fact("measured by", make("code", { textContent: value("run", i) })),
      ...fact("record", `${value("id", i)}, begun ${value("created", i).replace("T", " ")} UTC`),
      ...fact("reason", value("reason", i)),
      ...fact("settings", value("used", i)),
      ...fact("versions", value("versions", i)),
      ...fact("machine", value("machine", i)),
      ...fact("labels", value("labels", i)),
      ...fact("first step", value("first_step_seconds_told", i)),
      ...fact("rounds", `${cells.rounds[i]}, ${cells.blocks[i]} blocks${cells.contaminated_blocks[i] ? `, ${cells.contaminated_blocks[i]} of them disturbed` : ""}`),
      ...fact("mind", cells.warnings[i].map((w) => make("div", { textContent: data.warnings[w] }))),
    );
    const cell = make("td", { colSpan: shown.length + 1 }, list);
    return make("tr", { className: "more" }, cell);
  };
  const row = (i) => {
    const open = opened.has(i);
    const button = make("button", { type: "button", className: "open", textContent: open ? "▾" : "▸", title: "more about this cell" });
    button.setAttribute("aria-expanded", String(open));
    button.setAttribute("aria-label", "more about this cell");
    button.addEventListener("click", () => {
      open ? opened.delete(i) : opened.add(i);
      body();
      document.querySelector(`#rows .open[data-cell="${i}"]`)?.focus();
    });
    button.dataset.cell = i;
    const line = make("tr", { className: cells.latest[i] ? "cell" : "cell old" }, make("td", { className: "toggle" }, button));
    for (const name of shown) {
      const column = COLUMNS[name];
      const content = column.show ? column.show(i) : String(value(name, i) ?? "");
      const cell = make("td", { className: `${column.number ? "n " : ""}${column.className ?? ""}` }, ...[].concat(content));
      cell.dataset.label = data.titles[name];
      line.append(cell);
    }
    return open ? [line, details(i)] : [line];
  };
  const body = () => {
    const some = visible.slice(0, room);
    $("rows").replaceChildren(...some.flatMap(row));
    $("commands").replaceChildren(...some.map((i) => {
      const code = make("code", { textContent: value("command", i) });
      const copy = make("button", { type: "button", className: "copy", textContent: "copy" });
      copy.addEventListener("click", async () => {
        try { await navigator.clipboard.writeText(code.textContent); } catch {
          getSelection().selectAllChildren(code);
          document.execCommand("copy");
        }
        copy.textContent = "copied";
      });
      return make("li", {}, make("span", { className: "sub", textContent: value("label", i) }), code, copy);
    }));
    const left = visible.length - some.length;
    for (const pages of document.querySelectorAll(".pages")) {
      pages.hidden = left <= 0;
      pages.querySelector("span").textContent = `${some.length} of ${cellsOf(visible.length)} are shown`;
    }
    $("count").textContent = visible.length === total ? cellsOf(total) : `${visible.length} of ${cellsOf(total)}`;
  };
  const sortBy = (name) => {
    const again = sorted && sorted.name === name && sorted.way === first(name);
    const way = again ? other(first(name)) : first(name);
    sorted = { name, way };
    const sign = way === "ascending" ? 1 : -1;
    const key = (i) => value(name, i);
    order = [...Array(total).keys()].sort((a, b) => {
      const one = key(a), two = key(b);
      if (one === null || two === null) return (one === null) - (two === null) || a - b;
      const by = typeof one === "number" ? one - two : String(one).localeCompare(String(two), "en", { numeric: true });
      return sign * by || a - b;
    });
    mark();
    update();
  };

  // The filters, for the table and the charts alike.
  const FILTERS = ["network", "engine", "mode", "precision", "batch", "devices", "machine", "status"];
  const chosen = {};
  const words = [...Array(total).keys()].map((i) =>
    [value("label", i), value("settings", i), value("machine", i), value("status", i), value("labels", i)].join(" ").toLowerCase());
  const passes = (i) => {
    for (const [name, wanted] of Object.entries(chosen)) if (wanted && String(value(name, i)) !== wanted) return false;
    // A part of an id is random: only its beginning is looked for.
    return chosen_words.every((word) => words[i].includes(word) || value("id", i).toLowerCase().startsWith(word));
  };
  let chosen_words = [], pass = new Uint8Array(total).fill(1);
  const filters = () => {
    for (const name of FILTERS) {
      const found = cells[name];
      const all = found.names ? [...new Set(found.codes)].map((c) => found.names[c]) : [...new Set(found)];
      if (all.length < 2) continue;
      all.sort((a, b) => String(a).localeCompare(String(b), "en", { numeric: true }));
      const select = make("select", { name }, make("option", { value: "", textContent: `${data.titles[name]}: all` }),
        ...all.map((one) => make("option", { value: String(one), textContent: name === "batch" ? `batch ${one}` : name === "devices" ? `${one} device${one === 1 ? "" : "s"}` : String(one) })));
      select.setAttribute("aria-label", data.titles[name]);
      select.addEventListener("change", () => { chosen[name] = select.value; room = STEP; update(); });
      $("selects").append(select);
    }
    $("search").addEventListener("input", () => {
      chosen_words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
      room = STEP;
      update();
    });
    $("newest")?.addEventListener("change", update);
    $("filter").addEventListener("reset", () => {
      for (const name of FILTERS) delete chosen[name];
      chosen_words = [];
      room = STEP;
      setTimeout(update);
    });
    $("filter").addEventListener("submit", (event) => event.preventDefault());
    for (const pages of document.querySelectorAll(".pages"))
      pages.querySelector("button").addEventListener("click", () => { room += 5 * STEP; body(); });
  };
  const update = () => {
    for (let i = 0; i < total; i++) pass[i] = passes(i);
    // Charts have chosen already: of what failed when it was measured again, they show what there is.
    visible = order.filter((i) => pass[i] && (cells.latest[i] || !$("newest")?.checked));
    body();
    charts();
  };

  // The charts.
  const views = new Map();
  const fits = (v) => (v.cell === undefined || pass[v.cell]) && (v.cell2 === undefined || pass[v.cell2]);
  const same = (one, other) => one.length === other.length && one.every((v, i) => v === other[i]);
  const charts = () => {
    for (const [number, figure] of data.figures.entries()) {
      const values = figure.values.filter(fits);
      const empty = !values.some((v) => v.cell !== undefined) && figure.values.some((v) => v.cell !== undefined);
      $(`figure-${number}`).hidden = empty;
      const view = views.get(number);
      if (view && !empty && !same(figure.shown, values)) {
        figure.shown = values;
        if (figure.step) view.height(figure.step * new Set(values.map((v) => v.row)).size);
        view.data("values", values.map((v) => ({ ...v }))).resize().runAsync();
      }
    }
    for (const section of document.querySelectorAll("section.has-figures"))
      section.hidden = ![...section.querySelectorAll("figure")].some((f) => !f.hidden);
  };
  const longest = (spec) => Math.max(1, ...spec.layer.flatMap((layer) =>
    ["color", "strokeDash"].flatMap((channel) => layer.encoding?.[channel]?.scale?.domain ?? []))
    .map((name) => Math.min(21, String(name).length)));
  const draw = async () => {
    for (const [number, figure] of data.figures.entries()) {
      const place = $(`figure-${number}`).querySelector(".chart");
      figure.shown = figure.values;
      const spec = { ...figure.spec, data: { name: "values", values: figure.values.map((v) => ({ ...v })) }, background: "transparent" };
      // One line of legend for each meaning: Vega knows this, Vega-Lite's own schema does not.
      const layout = { top: { direction: "vertical", anchor: "start" } };
      const columns = Math.max(1, Math.min(6, Math.floor((place.clientWidth - 60) / (28 + 7 * longest(figure.spec)))));
      const legend = { ...data.config.legend, layout, columns };
      const config = { ...data.config, legend };
      const made = await vegaEmbed(place, spec, { renderer: "svg", actions: false, config, mode: "vega-lite" });
      // A filter may leave a layer with nothing to show, which is no reason to warn (1: errors alone).
      views.set(number, made.view.logLevel(1));
    }
    if (visible.length !== total) charts();
  };

  addEventListener("beforeprint", () => { room = Math.max(room, PRINTED); body(); });

  // Light and dark.
  const themes = ["light dark", "light", "dark"];
  const theme = (now) => {
    document.documentElement.style.colorScheme = now;
    $("theme").textContent = { "light dark": "◐ auto", light: "○ light", dark: "● dark" }[now];
    $("theme").dataset.now = now;
  };
  $("theme").addEventListener("click", () => theme(themes[(themes.indexOf($("theme").dataset.now) + 1) % 3]));
  theme("light dark");

  head();
  filters();
  update();
  draw().then(() => { document.documentElement.dataset.ready = "yes"; });
})();
