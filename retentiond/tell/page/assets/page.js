// Renews what is marked data-live, filters while you type. Without it the page does the same,
// when it is loaded again.
"use strict";

const RENEW_MS = 10_000;
const ANSWER_MS = 8_000;
const TYPED_MS = 150;

const renewal = document.getElementById("renewal");
const unreachable = document.getElementById("unreachable");
const forms = [...document.querySelectorAll("form[data-filter]")];

let asked = 0; // only the answer to the last question counts

function keyOf(element) {
  if (!element || element === document.body) return null;
  if (element.id) return `#${CSS.escape(element.id)}`;
  const href = element.getAttribute("href");
  if (href !== null) return `[href="${CSS.escape(href)}"]`;
  const label = element.getAttribute("aria-labelledby");
  return label && `[aria-labelledby="${CSS.escape(label)}"]`;
}

function isSelectedIn(part) {
  const selection = document.getSelection();
  return selection && !selection.isCollapsed && selection.containsNode(part, true);
}

// Puts the new contents in place of the old; focus, scroll and what is unfolded stay.
function replace(part, fresh) {
  const focused = part.contains(document.activeElement) ? keyOf(document.activeElement) : null;
  const open = [...part.querySelectorAll("details[open]")].map(keyOf).filter(Boolean);
  const scrolled = [...part.querySelectorAll(".scroll")].map((each) => [keyOf(each), each.scrollLeft]);
  part.replaceChildren(...fresh.childNodes);
  for (const key of open) part.querySelector(key)?.setAttribute("open", "");
  for (const [key, left] of scrolled) {
    const found = key && part.querySelector(key);
    if (found) found.scrollLeft = left;
  }
  if (focused) part.querySelector(focused)?.focus({ preventScroll: true });
}

// Elements with the role of a status stay and only change, so that a screen reader tells what is
// new and nothing else.
function show(fresh) {
  for (const part of document.querySelectorAll("[data-live]")) {
    const counterpart = fresh.getElementById(part.id);
    if (!counterpart) continue;
    part.className = counterpart.className;
    const isKept = part.dataset.live === "class" || isSelectedIn(part);
    if (!isKept && !counterpart.isEqualNode(part)) replace(part, counterpart);
  }
  document.title = fresh.title;
}

async function renew() {
  const question = ++asked;
  try {
    const answer = await fetch(location.href, {
      cache: "no-store",
      credentials: "same-origin",
      signal: AbortSignal.timeout(ANSWER_MS), // else a daemon that hangs would look as it was
    });
    const html = await answer.text();
    if (question !== asked) return;
    const fresh = new DOMParser().parseFromString(html, "text/html");
    if (!fresh.getElementById("health")) throw new Error(`it answers ${answer.status}`);
    if (!fresh.getElementById("summary") !== !document.getElementById("summary")) {
      location.reload(); // the first plan is there, or the topic has gone
      return;
    }
    unreachable.hidden = true;
    show(fresh);
  } catch (error) {
    if (question !== asked || !unreachable.hidden) return;
    unreachable.textContent = `retentiond can't be reached since ${new Date().toLocaleTimeString()} (${error.message}); what you see is from before.`;
    unreachable.hidden = false;
  }
}

function addressOf(form) {
  const given = [...new FormData(form)].filter(([, value]) => value !== "");
  const query = new URLSearchParams(given).toString();
  return location.pathname + (query && `?${query}`);
}

for (const form of forms) {
  let typed;
  const filter = (event) => {
    event?.preventDefault();
    clearTimeout(typed);
    history.replaceState(null, "", addressOf(form));
    renew();
  };
  form.addEventListener("submit", filter);
  form.addEventListener("change", filter);
  form.addEventListener("input", () => {
    clearTimeout(typed);
    typed = setTimeout(filter, TYPED_MS);
  });
}

const isPaused = () => renewal.getAttribute("aria-pressed") === "true";
renewal.hidden = false;
renewal.addEventListener("click", () => {
  renewal.setAttribute("aria-pressed", String(!isPaused()));
  if (!isPaused()) renew();
});
setInterval(() => {
  if (!document.hidden && !isPaused()) renew();
}, RENEW_MS);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && !isPaused()) renew();
});
