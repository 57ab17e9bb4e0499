// The entity graph on a canvas (Cytoscape.js): colours by type, search, and neighbours added for a chosen entity.
"use strict";

(() => {
  const place = document.getElementById("graph");
  if (!place || typeof cytoscape === "undefined") return;
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const palette = ["--entity", "--passage", "--question", "--seed", "--edge"].map(style);
  const extra = ["#8a6d00", "#0f8b8d", "#b5306b", "#5b5fc7", "#6a7b2f"];
  const types = new Map();
  const colour = (type) => {
    if (!type) return style("--edge");
    if (!types.has(type)) types.set(type, [...palette.slice(0, 4), ...extra][types.size % 9]);
    return types.get(type);
  };
  const legend = document.getElementById("graph-legend");
  const chosen = document.getElementById("graph-chosen");
  const names = document.getElementById("graph-names");
  for (const id of ["graph", "graph-tools", "graph-legend"]) document.getElementById(id).hidden = false;

  const graph = cytoscape({
    container: place,
    style: [
      {
        selector: "node",
        style: {
          "background-color": "data(colour)", width: "data(size)", height: "data(size)", color: style("--pico-color") || "#373c44",
          "text-wrap": "ellipsis", "text-valign": "bottom", "text-margin-y": 3,
        },
      },
      { selector: "node:selected", style: { "border-width": 3, "border-color": style("--seed") } },
      {
        selector: "edge",
        style: {
          width: 1, "line-color": style("--edge"), "curve-style": "bezier", "target-arrow-shape": "triangle",
          "target-arrow-color": style("--edge"), "arrow-scale": 0.7, opacity: 0.7,
        },
      },
      {
        selector: "edge.near",
        style: {
          label: "data(labels)", "font-size": 9, color: style("--soft"), "text-rotation": "autorotate",
          "text-wrap": "ellipsis", "text-max-width": 160, "min-zoomed-font-size": 7, opacity: 1,
        },
      },
    ],
  });

  const merge = (found) => {
    const nodes = found.nodes.filter((one) => graph.getElementById(one.entity_id).empty());
    graph.add(nodes.map((one) => ({
      group: "nodes",
      data: {
        id: one.entity_id, name: one.name, type: one.type || "", colour: colour(one.type),
        size: 12 + 6 * Math.log2(1 + one.df),
      },
    })));
    const edges = found.edges.map((one) => ({
      group: "edges",
      data: {
        id: `${one.source_id}>${one.target_id}`, source: one.source_id, target: one.target_id, labels: one.labels,
      },
    }));
    graph.add(edges.filter((one) => graph.getElementById(one.data.id).empty()
      && graph.getElementById(one.data.source).nonempty() && graph.getElementById(one.data.target).nonempty()));
    graph.layout({
      name: "cose", animate: false, randomize: false, nodeDimensionsIncludeLabels: true, idealEdgeLength: 90, padding: 50,
    }).run();
    legend.replaceChildren(...[...types].map(([type, value]) => {
      const badge = document.createElement("span");
      badge.className = "badge";
      badge.style.borderLeft = `.7em solid ${value}`;
      badge.textContent = type;
      return badge;
    }));
    names.replaceChildren(...graph.nodes().map((node) => {
      const option = document.createElement("option");
      option.value = node.data("name");
      return option;
    }));
  };

  // As many names as fit, the selected node's and those of large nodes first, equally large at any zoom.
  const label = () => {
    const zoom = graph.zoom();
    const boxes = [];
    const ranked = graph.nodes().toArray().sort((a, b) => b.selected() - a.selected() || b.data("size") - a.data("size"));
    graph.batch(() => ranked.forEach((node) => {
      const { x, y } = node.renderedPosition();
      const half = Math.min(node.data("name").length * 3.3, 70);
      const top = y + node.renderedHeight() / 2;
      const box = [x - half, top, x + half, top + 16];
      const fits = boxes.every((one) => box[0] > one[2] || box[2] < one[0] || box[1] > one[3] || box[3] < one[1]);
      if (fits) boxes.push(box);
      node.style({ label: fits ? node.data("name") : "", "font-size": 11 / zoom, "text-max-width": 140 / zoom });
    }));
  };
  graph.on("zoom layoutstop select", label);

  const load = async (entity) => {
    const reply = await fetch(`${place.dataset.source}?${new URLSearchParams(entity ? { entity } : {})}`);
    if (!reply.ok) throw new Error(`${reply.status}`);
    merge(await reply.json());
  };

  const choose = (node) => {
    graph.elements().unselect();
    node.select();
    graph.edges().removeClass("near");
    node.connectedEdges().addClass("near");
    const link = document.createElement("a");
    link.href = `${place.dataset.pages}/${encodeURIComponent(node.id())}`;
    link.textContent = node.data("name");
    const more = document.createElement("button");
    more.type = "button";
    more.className = "small secondary";
    more.textContent = "Add its neighbours";
    more.addEventListener("click", () => load(node.id()).catch(failed));
    chosen.replaceChildren(link, ` ${node.data("type")} · ${node.degree()} connections shown `, more);
  };

  const failed = () => { chosen.textContent = "The server did not send the graph; load the page again."; };

  graph.on("tap", "node", (event) => choose(event.target));
  document.getElementById("graph-fit").addEventListener("click", () => graph.fit(undefined, 30));
  document.getElementById("graph-find").addEventListener("change", (event) => {
    const wanted = event.target.value.trim().toLowerCase();
    const node = graph.nodes().filter((one) => wanted && one.data("name").toLowerCase().includes(wanted)).first();
    if (node.empty()) {
      chosen.textContent = wanted ? `Nothing on the canvas is called '${event.target.value.trim()}'.` : "";
      return;
    }
    choose(node);
    graph.animate({ center: { eles: node }, zoom: Math.max(graph.zoom(), 1) }, { duration: 200 });
  });
  place.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] };
    if (moves[event.key]) graph.panBy({ x: moves[event.key][0], y: moves[event.key][1] });
    else if (event.key === "+" || event.key === "-") graph.zoom(graph.zoom() * (event.key === "+" ? 1.2 : 0.8));
    else return;
    event.preventDefault();
  });
  load(place.dataset.entity).catch(failed);
})();
