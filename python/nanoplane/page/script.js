// Gives every plot the width of the page, and again when that changes.

const LEAST_PANEL = 300;
// What an axis with its title takes beside a panel, and what is between panels.
const BESIDE = 78;

function fit(spec, width) {
  if (spec.vconcat) {
    spec.vconcat.forEach((part) => fit(part, width));
    return;
  }
  const parts = spec.concat || spec.hconcat;
  if (parts) {
    const most = spec.hconcat ? parts.length : spec.columns || parts.length;
    spec.columns = Math.max(1, Math.min(most, parts.length, Math.floor(width / LEAST_PANEL)));
    parts.forEach((part) => fit(part, width / spec.columns));
    delete spec.hconcat;
    spec.concat = parts;
    return;
  }
  spec.width = Math.max(160, Math.floor(width - BESIDE));
  spec.height = Math.round(Math.min(420, Math.max(spec.height || 240, spec.width / 2.2)));
}

// Several legends are below each other where there is no room beside, which depends on the font.
function draw(index, isStacked = false) {
  const element = document.getElementById(`plot-${index}`);
  const width = element.clientWidth;
  const spec = structuredClone(plots[index]);
  fit(spec, width);
  spec.config.legend.columns = Math.max(1, Math.floor(width / 280));
  spec.config.legend.labelLimit = Math.min(400, width - 60);
  if (isStacked) spec.config.legend.layout = { top: { direction: "vertical", anchor: "start" } };
  spec.config.title.limit = width;
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const options = {
    renderer: "svg",
    actions: { export: true, source: false, compiled: false, editor: false },
    tooltip: { theme: dark ? "dark" : "light" },
  };
  return vegaEmbed(element, spec, options).then(({ view }) => {
    if (!isStacked && element.querySelector("svg").getBoundingClientRect().width > width) {
      view.finalize();
      return draw(index, true);
    }
    view.addEventListener("click", (_, item) => {
      const command = item && item.datum && item.datum.command;
      if (command) {
        const code = document.createElement("code");
        code.textContent = command;
        element.nextElementSibling.replaceChildren(code);
      }
    });
    element.view = view;
    element.dataset.drawn = width;
  });
}

let pending;
addEventListener("resize", () => {
  clearTimeout(pending);
  pending = setTimeout(() => {
    for (const index of Object.keys(plots)) {
      const element = document.getElementById(`plot-${index}`);
      if (element.clientWidth !== Number(element.dataset.drawn)) draw(index);
    }
  }, 200);
});
// One after the other, so that the first screen is there soon.
(async () => {
  for (const index of Object.keys(plots)) await draw(index);
  document.body.dataset.ready = "yes";
})();
