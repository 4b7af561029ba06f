// Pause, resume and hydrate on a running cluster with the AG-UI JavaScript client, while replicas are killed.
// Usage: node check.mjs <scenario> <cluster.json> <invoice>. Exit code 0: all came as promised.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { HttpAgent } from "@ag-ui/client";

const [scenario, clusterFile, invoice] = process.argv.slice(2);
const threadId = randomUUID();
const ANSWER_SECONDS_MAX = 60;
const PAUSE_SECONDS = 0.25;
const RETRYABLE = new Set([
  "APPROVAL_RESUME_IN_PROGRESS",
  "RUN_IN_PROGRESS",
  "THREAD_BUSY",
  "RUN_FAILED",
  "STORE_UNAVAILABLE",
]);

// When a replica dies in mid-stream, this client rejects runAgent and raises a second rejection that nobody can
// catch (ag-ui-protocol/ag-ui#2510); without a handler it would end the process.
const uncatchable = [];
process.on("unhandledRejection", (reason) => uncatchable.push(reason));
let cutCount = 0;

const readCluster = () => JSON.parse(readFileSync(clusterFile, "utf8"));

/** One page of a browser: a new one knows nothing but its thread, as after a reload. */
function openPage() {
  const page = { replica: null };
  page.agent = new HttpAgent({
    url: `${readCluster().url}/agents/payments`,
    threadId,
    headers: { "x-agui-scope": "outside-js" },
    fetch: async (url, init) => {
      const response = await fetch(url, init);
      page.replica = response.headers.get("x-agui-replica");
      return response;
    },
  });
  return page;
}

/** Send one run; returns its terminal event, or null if the stream was cut. */
async function post(page, parameters = {}, subscriber = {}) {
  let end = null;
  const note = ({ event }) => void (end = event);
  try {
    await page.agent.runAgent(parameters, { ...subscriber, onRunFinishedEvent: note, onRunErrorEvent: note });
  } catch (error) {
    console.log(`runAgent was rejected: ${error}`);
  }
  // runAgent resolves without an error when a stream ends cleanly with no terminal event: only the event counts.
  if (end === null) cutCount += 1;
  return end;
}

/** Send the same run until it is answered, as the contract asks of clients. */
async function send(page, parameters = {}) {
  const deadline = Date.now() + ANSWER_SECONDS_MAX * 1000;
  while (Date.now() < deadline) {
    const end = await post(page, parameters);
    if (end !== null && !RETRYABLE.has(end.code)) {
      assert.equal(end.type, "RUN_FINISHED", JSON.stringify(end));
      return end;
    }
    await pause((end?.metadata?.retryAfterSeconds ?? PAUSE_SECONDS) * 1000);
  }
  throw new Error(`no answer in ${ANSWER_SECONDS_MAX} s`);
}

async function ask(page) {
  page.agent.addMessage({ id: randomUUID(), role: "user", content: `pay ${invoice} to ACME` });
  await send(page);
  return onlyCard(page);
}

function onlyCard(page) {
  const cards = page.agent.pendingInterrupts;
  assert.equal(cards.length, 1);
  assert.ok(Date.parse(cards[0].expiresAt) > Date.now(), "the card says until when it is open");
  return cards[0];
}

/** A page that knows nothing of the pause sends a message: the refusal itself shows the card, by both its ways. */
async function sayInstead(card) {
  const page = openPage();
  const asked = [];
  page.agent.addMessage({ id: randomUUID(), role: "user", content: "hello" });
  const end = await post(page, {}, { onCustomEvent: ({ event }) => void asked.push(event.value.id) });
  assert.equal(end?.code, "APPROVAL_RESUME_REQUIRED");
  assert.deepEqual(asked, [card.id]);
  assert.deepEqual(end.metadata.interrupts, [card]);
}

/** Reload the page in the middle: the same card, the question and the call, on whatever replica answers. */
async function reloadPaused(card) {
  const page = openPage();
  await send(page);
  assert.deepEqual(onlyCard(page), card);
  assert.deepEqual(roles(page), ["user", "assistant"]);
  return page;
}

/** Reload the page at the end: nothing waits, and the whole conversation is there in its order. */
async function reloadAnswered(answer) {
  const page = openPage();
  await send(page);
  assert.deepEqual(page.agent.pendingInterrupts, []);
  assert.deepEqual(roles(page), ["user", "assistant", "tool", "assistant"]);
  assert.equal(page.agent.messages.at(-1).content, answer);
}

const roles = (page) => page.agent.messages.map((message) => message.role);
const answerOf = (page) => page.agent.messages.findLast((message) => message.role === "assistant").content;
const approval = (card, edits = {}) => ({
  resume: [{ interruptId: card.id, status: "resolved", payload: { approved: true, ...edits } }],
});

function kill(name) {
  const replica = readCluster().replicas.find((each) => each.name === name);
  assert.ok(replica, `no replica is called ${name}`);
  process.kill(replica.pid, "SIGKILL");
}

async function bankHasPaid() {
  const url = `${readCluster().bank_url}/effects?invoice_prefix=${encodeURIComponent(invoice)}`;
  const deadline = Date.now() + ANSWER_SECONDS_MAX * 1000;
  while (Date.now() < deadline) {
    const { counts } = await (await fetch(url)).json();
    if (counts.payments > 0) return;
    await pause(20);
  }
  throw new Error("the bank was not asked to pay");
}

async function delayBank(seconds) {
  const url = `${readCluster().bank_url}/delays/${encodeURIComponent(invoice)}`;
  const headers = { "content-type": "application/json" };
  const answer = await fetch(url, { method: "PUT", headers, body: JSON.stringify({ seconds }) });
  assert.ok(answer.ok);
}

const scenarios = {
  /** The replica that paused is killed; the approval, with an edited argument, is answered elsewhere; a duplicate. */
  async paused() {
    const page = openPage();
    const card = await ask(page);
    const paused = page.replica;
    await sayInstead(card);
    kill(paused);

    const reloaded = await reloadPaused(card);
    await send(reloaded, approval(card, { payee: "GLOBEX" }));
    assert.notEqual(reloaded.replica, paused);
    assert.match(answerOf(reloaded), /Paid .* to GLOBEX/);

    // The first page was never told; it answers the card that it still shows.
    const duplicate = await send(page, approval(card, { payee: "GLOBEX" }));
    assert.equal(duplicate.metadata?.replay, true);
    assert.equal(answerOf(page), answerOf(reloaded));
    await reloadAnswered(answerOf(reloaded));
  },

  /** The replica that runs the approved call is killed in the middle of it; the same page sends the same again. */
  async running() {
    const page = openPage();
    const card = await ask(page);
    await reloadPaused(card);
    await delayBank(ANSWER_SECONDS_MAX);

    const first = post(page, approval(card));
    await bankHasPaid();
    kill(page.replica);
    assert.equal(await first, null, "the stream was cut");
    await delayBank(0);

    await send(page, approval(card));
    assert.match(answerOf(page), /Paid .* to ACME/);
    await reloadAnswered(answerOf(page));
  },
};

await scenarios[scenario]();
assert.ok(uncatchable.length <= cutCount, `rejections that no cut stream explains: ${uncatchable}`);
