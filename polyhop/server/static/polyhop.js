// Times in the reader's time zone and format; the server writes them in UTC.
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
})();
