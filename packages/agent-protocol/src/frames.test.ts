import { expect, it } from "vitest";
import {
  CLOSE,
  commonProtocol,
  connectClaims,
  MAX_FRAME_BYTES,
  parseAgentFrame,
  parseServiceFrame,
  retryAfterOf,
  slowDown,
} from "./index.ts";

const op = "01939b5e-7a10-7cc1-8b5e-0d3f5a2b9c11";
const req = { t: "req", op, method: "dhv.delete", key: "dhv:x", gen: 1, deadlineMs: 1000, params: {} };

it("a frame is read as its kind, without the fields this version does not know", () => {
  expect(parseServiceFrame(JSON.stringify({ ...req, newer: true }))).toEqual({ ok: true, frame: req });
  expect(parseAgentFrame(JSON.stringify({ t: "ack", op, state: "accepted", newer: 1 }))).toEqual({
    ok: true,
    frame: { t: "ack", op, state: "accepted" },
  });
});

it("a kind of frame from a newer peer is told apart from a broken one", () => {
  expect(parseServiceFrame('{"t":"novelty"}')).toMatchObject({ ok: false, reason: "unknown" });
  expect(parseServiceFrame('{"t":"constructor"}')).toMatchObject({ ok: false, reason: "unknown" });
  // A side does not read what only that side sends.
  expect(parseServiceFrame(JSON.stringify({ t: "ack", op, state: "accepted" }))).toMatchObject({ reason: "unknown" });
});

it.each([
  ["no JSON", "{", "a frame is not JSON"],
  ["no object", "[]", "a frame is not an object with a text t"],
  ["null", "null", "a frame is not an object with a text t"],
  ["an op that is no UUID", JSON.stringify({ ...req, op: "1" }), "req: op: "],
  ["an op in upper case", JSON.stringify({ ...req, op: op.toUpperCase() }), "req: op: is not in lower case"],
  ["gen 0", JSON.stringify({ ...req, gen: 0 }), "req: gen: "],
  ["a key that is too long", JSON.stringify({ ...req, key: "k".repeat(513) }), "req: key: "],
])("%s is malformed, and the message says what is wrong", (_, frame, message) => {
  const parsed = parseServiceFrame(frame);
  expect(parsed).toMatchObject({ ok: false, reason: "malformed" });
  expect(!parsed.ok && parsed.message).toContain(message);
});

it("a message about secrets never quotes one", () => {
  const parsed = parseServiceFrame(JSON.stringify({ ...req, secrets: { token: ["canary"] } }));
  expect(parsed).toMatchObject({ ok: false, reason: "malformed" });
  expect(JSON.stringify(parsed)).not.toContain("canary");
});

it("a frame of exactly 1 MiB is read, one byte more is not, counted as UTF-8", () => {
  const padded = (bytes: number, filler: string) => {
    const bare = JSON.stringify({ ...req, pad: "" });
    const fill = filler.repeat(Math.floor((bytes - bare.length) / new TextEncoder().encode(filler).length));
    const frame = JSON.stringify({ ...req, pad: fill });
    return frame + " ".repeat(bytes - new TextEncoder().encode(frame).length);
  };
  for (const filler of ["x", "é", "€"]) {
    expect(parseServiceFrame(padded(MAX_FRAME_BYTES, filler)).ok).toBe(true);
    expect(parseServiceFrame(padded(MAX_FRAME_BYTES + 1, filler))).toMatchObject({ ok: false, reason: "too-large" });
  }
});

it("the version spoken is the highest that both sides know", () => {
  expect(commonProtocol([1, 1])).toBe(1);
  expect(commonProtocol([1, 7])).toBe(1);
  expect(commonProtocol([2, 7])).toBeUndefined();
});

it("the pause asked for is read from the close reason, and nothing else is", () => {
  expect(retryAfterOf(slowDown(2500))).toBe(2500);
  for (const reason of ["", "later", "{}", '{"retryAfterMs":-1}', '{"retryAfterMs":1e12}'])
    expect(retryAfterOf(reason)).toBeUndefined();
  expect(new Set(Object.values(CLOSE)).size).toBe(Object.keys(CLOSE).length);
});

it("a connect token names one node and lives for a minute at most", () => {
  const claims = { iss: op, sub: op, aud: "a", iat: 100, exp: 160, jti: op };
  expect(connectClaims.safeParse(claims).success).toBe(true);
  expect(connectClaims.safeParse({ ...claims, exp: 161 }).success).toBe(false);
  expect(connectClaims.safeParse({ ...claims, exp: 100 }).success).toBe(false);
  expect(connectClaims.safeParse({ ...claims, sub: op.replace("0", "1") }).success).toBe(false);
});
