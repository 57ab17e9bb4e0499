// Times in the reader's time zone and format; and an answer while a model writes it. Pages work without.
"use strict";

(() => {
  const shown = { dateStyle: "medium", timeStyle: "short" };
  const localise = () => {
    for (const time of document.querySelectorAll("time:not([title])")) {
      time.title = time.textContent;
      time.textContent = new Date(time.dateTime).toLocaleString(undefined, shown);
    }
  };
  localise();
  document.body.addEventListener("htmx:afterSettle", localise);

  const show = (html, address) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    document.title = page.title;
    document.querySelector("main").replaceWith(page.querySelector("main"));
    history.pushState(null, "", address);
    localise();
  };

  // Lines of JSON: drafts, then the page with the checked answer.
  const stream = async (query) => {
    const reply = await fetch(`/ask/stream?${query}`);
    if (!reply.ok) throw new Error(`${reply.status}`);
    const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ;) {
      const { value, done } = await reader.read();
      if (done) throw new Error("the server ended the stream early");
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const { draft, page } of lines.map((line) => JSON.parse(line))) {
        if (page) return show(page, `/ask?${query}`);
        document.querySelector("#draft p").textContent = draft;
      }
    }
  };

  document.addEventListener("submit", (event) => {
    if (!event.target.matches("form[data-streams]")) return;
    event.preventDefault();
    const query = new URLSearchParams(new FormData(event.target));
    document.getElementById("draft").hidden = false;
    stream(query).catch(() => location.assign(`/ask?${query}`));
  });
  window.addEventListener("popstate", () => location.reload());
})();
