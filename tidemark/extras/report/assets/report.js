"use strict";
// The report's charts, filters and sorting. What is drawn and counted comes from the two data blocks of the page; text is only ever
// set as text.
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const byId = (id) => document.getElementById(id);
  const data = read("data");
  const specs = read("specs");
  const SHOWN_BARS = 20;

  // ---- what the filters say ----

  // A history row: [stream, slice, a count per class, jumps forward, jumps backward]; stream -1 is all that have no row of their own.
  const FORWARD = 2 + data.classes.length;
  const BACKWARD = FORWARD + 1;

  function wanted() {
    const topic = byId("topic").value.trim().toLowerCase();
    const producer = byId("producer").value.trim().toLowerCase();
    const boxes = [...document.querySelectorAll("input[name=class]")];
    const off = new Set(boxes.filter((box) => !box.checked).map((box) => box.value));
    const fits = (row) => row[0].toLowerCase().includes(topic) && row[1].toLowerCase().includes(producer);
    return {
      topic,
      producer,
      isAll: !topic && !producer,
      isEveryClass: off.size === 0,
      classes: data.classes.filter((name) => !off.has(name)),
      streams: new Set(data.streams.flatMap((row, stream) => (fits(row) ? [stream] : []))),
    };
  }

  const counts = (filter, row) => (row[0] < 0 ? filter.isAll : filter.streams.has(row[0]));

  // Records of the wanted streams, by slice and class, with the jumps.
  function bySlice(filter) {
    const sums = data.slices.map(() => new Array(data.classes.length + 2).fill(0));
    for (const row of data.history) {
      if (counts(filter, row)) for (let at = 2; at <= BACKWARD; at++) sums[row[1]][at - 2] += row[at];
    }
    return sums;
  }

  // ---- what each chart draws ----

  const loadsOf = (at) => ({ loads: data.slices[at][0], when: data.slices[at][1] });

  function ofClasses(filter, sums, names) {
    const drawn = names.filter((name) => filter.classes.includes(name));
    if (!drawn.length || !sums.length) return [];
    return sums.flatMap((sum, at) =>
      drawn.map((name) => ({ ...loadsOf(at), class: name, order: data.classes.indexOf(name), records: sum[data.classes.indexOf(name)] })),
    );
  }

  function worstStreams(filter) {
    const usual = filter.isEveryClass ? data.classes.filter((name) => name === "duplicate" || name === "late") : filter.classes;
    const sums = new Map();
    for (const row of data.history) {
      if (row[0] < 0 || !counts(filter, row)) continue;
      const sum = sums.get(row[0]) ?? new Array(data.classes.length).fill(0);
      data.classes.forEach((_, at) => (sum[at] += row[2 + at]));
      sums.set(row[0], sum);
    }
    const at = usual.map((name) => data.classes.indexOf(name));
    const total = (sum) => at.reduce((all, each) => all + sum[each], 0);
    const worst = [...sums].filter(([, sum]) => total(sum)).sort((a, b) => total(b[1]) - total(a[1]));
    return worst.slice(0, SHOWN_BARS).flatMap(([stream, sum]) =>
      at.map((each) => ({ place: data.streams[stream][2], class: data.classes[each], order: each, records: sum[each] })),
    );
  }

  function furthestBehind(filter) {
    const places = new Set([...filter.streams].map((stream) => data.streams[stream][3]));
    return data.partitions
      .filter(([topic, , lag], at) => lag > 0 && topic.toLowerCase().includes(filter.topic) && (!filter.producer || places.has(at)))
      .sort((a, b) => b[2] - a[2])
      .slice(0, SHOWN_BARS)
      .map(([, place, lag]) => ({ place, lag }));
  }

  function jumps(sums) {
    const rows = sums.flatMap((sum, at) => [
      { ...loadsOf(at), direction: "forward", count: sum[FORWARD - 2], jumps: sum[FORWARD - 2] },
      { ...loadsOf(at), direction: "backward", count: sum[BACKWARD - 2], jumps: -sum[BACKWARD - 2] },
    ]);
    return rows.some((row) => row.count) ? rows : [];
  }

  const draws = {
    lag: (filter) => furthestBehind(filter),
    loads: (filter, sums) => ofClasses(filter, sums, data.classes.slice(0, 1)),
    kept_out: (filter, sums) => {
      const rows = ofClasses(filter, sums, data.classes.slice(1));
      return rows.some((row) => row.records) ? rows : [];
    },
    streams: (filter) => worstStreams(filter),
    jumps: (_, sums) => jumps(sums),
    gate: () => data.gate,
    runs: () => (data.runs.some((row) => row.seconds) ? data.runs : []),
  };

  // ---- charts ----

  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);

  function tell(_handler, event, _item, value) {
    tip.hidden = !value;
    if (!value) return;
    tip.replaceChildren(
      ...Object.entries(value).map(([name, text]) => {
        const line = document.createElement("div");
        line.textContent = `${name}: ${text}`;
        return line;
      }),
    );
    tip.style.left = `${Math.max(0, Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 4))}px`;
    tip.style.top = `${Math.max(0, Math.min(event.clientY + 12, innerHeight - tip.offsetHeight - 4))}px`;
  }

  const views = {};
  // ast: expressions are interpreted, so that the page needs no right to make code from text.
  const options = { mode: "vega", renderer: "svg", ast: true, actions: false, defaultStyle: false, tooltip: tell };

  async function draw(name, rows) {
    const place = byId(`chart-${name}`);
    if (!place) return;
    place.hidden = !rows.length;
    byId(`empty-${name}`).hidden = rows.length > 0;
    if (!rows.length) return;
    if (views[name]) {
      await views[name].data(name, rows).resize().runAsync();
      return;
    }
    const spec = { ...specs[name], description: place.dataset.caption };
    spec.data = spec.data.map((each) => (each.name === name ? { ...each, values: rows } : each));
    views[name] = (await window.vegaEmbed(place, spec, options)).view;
    performance.mark(`chart-${name}`);
  }

  // ---- tables ----

  const number = (cell) => (/\d/.test(cell.textContent) ? Number(cell.textContent.replaceAll(/[^\d.]/g, "")) : -1);

  function sort(head) {
    const isDown = head.getAttribute("aria-sort") !== "descending";
    for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
    const body = head.closest("table").tBodies[0];
    const key = (row) => row.cells[head.cellIndex];
    const compare = head.classList.contains("n")
      ? (a, b) => number(key(a)) - number(key(b))
      : (a, b) => key(a).textContent.localeCompare(key(b).textContent);
    body.append(...[...body.rows].sort((a, b) => (isDown ? -compare(a, b) : compare(a, b))));
  }

  function narrowRows(filter) {
    for (const row of document.querySelectorAll("tbody tr")) {
      const { topic, producer, classes } = row.dataset;
      const isElsewhere = topic !== undefined && !(topic.toLowerCase().includes(filter.topic) && producer.toLowerCase().includes(filter.producer));
      const isOther = !filter.isEveryClass && classes && !classes.split(" ").some((name) => filter.classes.includes(name));
      row.hidden = isElsewhere || Boolean(isOther);
    }
  }

  function narrowColumns(filter) {
    for (const head of document.querySelectorAll("th[data-class]")) {
      const isHidden = !filter.classes.includes(head.dataset.class);
      if (head.hidden === isHidden) continue;
      head.hidden = isHidden;
      for (const row of head.closest("table").tBodies[0].rows) row.cells[head.cellIndex].hidden = isHidden;
    }
  }

  // The one table whose numbers are sums over streams: load, claimed at, then a column per class.
  const loadRows = [...document.querySelectorAll("#table-loads tbody tr")].reverse();
  const spelled = new Intl.NumberFormat("en");

  function countLoads(filter, sums) {
    loadRows.forEach((row, at) => {
      data.classes.forEach((_, each) => (row.cells[2 + each].textContent = spelled.format(sums[at][each])));
    });
  }

  function count(filter, sums) {
    const records = sums.reduce((all, sum) => all + filter.classes.reduce((some, name) => some + sum[data.classes.indexOf(name)], 0), 0);
    const streams = filter.streams.size + (filter.isAll ? data.others : 0);
    const all = data.streams.length + data.others;
    byId("told").textContent = `${spelled.format(streams)} of ${spelled.format(all)} streams, ${spelled.format(records)} records`;
  }

  // ---- together ----

  async function show() {
    const filter = wanted();
    const sums = bySlice(filter);
    count(filter, sums);
    narrowRows(filter);
    narrowColumns(filter);
    countLoads(filter, sums);
    for (const name of Object.keys(draws)) await draw(name, draws[name](filter, sums));
    document.documentElement.dataset.shown = String(Number(document.documentElement.dataset.shown ?? 0) + 1);
  }

  // One after another: what is typed while the charts are drawn is shown after that, once.
  let running = null;
  let isAgain = false;
  async function refresh() {
    if (running) {
      isAgain = true;
      return;
    }
    do {
      isAgain = false;
      running = show();
      await running;
    } while (isAgain);
    running = null;
  }

  const form = document.querySelector(".filters");
  form.addEventListener("input", refresh);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(refresh));
  document.addEventListener("click", (event) => {
    const head = event.target.closest?.("th");
    if (head) sort(head);
  });
  refresh();
})();
