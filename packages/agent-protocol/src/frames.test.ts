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

it("parses a frame by type and drops unknown fields", () => {
  expect(parseServiceFrame(JSON.stringify({ ...req, newer: true }))).toEqual({ ok: true, frame: req });
  expect(parseAgentFrame(JSON.stringify({ t: "ack", op, state: "accepted", newer: 1 }))).toEqual({
    ok: true,
    frame: { t: "ack", op, state: "accepted" },
  });
});

it("distinguishes an unknown frame type from a malformed frame", () => {
  expect(parseServiceFrame('{"t":"novelty"}')).toMatchObject({ ok: false, reason: "unknown" });
  expect(parseServiceFrame('{"t":"constructor"}')).toMatchObject({ ok: false, reason: "unknown" });
  // Neither side parses its own frames.
  expect(parseServiceFrame(JSON.stringify({ t: "ack", op, state: "accepted" }))).toMatchObject({ reason: "unknown" });
});

it.each([
  ["no JSON", "{", "a frame is not JSON"],
  ["no object", "[]", "a frame is not an object with a text t"],
  ["null", "null", "a frame is not an object with a text t"],
  ["an op that is not a UUID", JSON.stringify({ ...req, op: "1" }), "req: op: "],
  ["an op in upper case", JSON.stringify({ ...req, op: op.toUpperCase() }), "req: op: is not in lower case"],
  ["gen 0", JSON.stringify({ ...req, gen: 0 }), "req: gen: "],
  ["a key that is too long", JSON.stringify({ ...req, key: "k".repeat(513) }), "req: key: "],
])("%s is malformed, and the message states the violated rule", (_, frame, message) => {
  const parsed = parseServiceFrame(frame);
  expect(parsed).toMatchObject({ ok: false, reason: "malformed" });
  expect(!parsed.ok && parsed.message).toContain(message);
});

it("never quotes a secret in a message", () => {
  const parsed = parseServiceFrame(JSON.stringify({ ...req, secrets: { token: ["canary"] } }));
  expect(parsed).toMatchObject({ ok: false, reason: "malformed" });
  expect(JSON.stringify(parsed)).not.toContain("canary");
  // The name of a secret may be a piece of one.
  const named = parseServiceFrame(JSON.stringify({ ...req, secrets: { ["canary".repeat(50)]: "v" } }));
  expect(named).toMatchObject({ ok: false, message: expect.stringMatching(/^req: secrets: /) });
  expect(JSON.stringify(named)).not.toContain("canary");
});

it("names the operation of a malformed request, and of no other frame", () => {
  const many = Object.fromEntries(Array.from({ length: 129 }, (_, number) => [`k${number}`, "v"]));
  expect(parseServiceFrame(JSON.stringify({ ...req, secrets: many }))).toMatchObject({ reason: "malformed", op });
  expect(parseServiceFrame(JSON.stringify({ ...req, op: "1" }))).not.toHaveProperty("op");
  expect(parseAgentFrame(JSON.stringify({ t: "ack", op, state: "odd" }))).not.toHaveProperty("op");
});

it("accepts a frame of exactly 1 MiB of UTF-8", () => {
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

it("selects the highest common version", () => {
  expect(commonProtocol([1, 1])).toBe(1);
  expect(commonProtocol([1, 7])).toBe(1);
  expect(commonProtocol([2, 7])).toBeUndefined();
});

it("parses the requested pause of a close reason", () => {
  expect(retryAfterOf(slowDown(2500))).toBe(2500);
  for (const reason of ["", "later", "{}", '{"retryAfterMs":-1}', '{"retryAfterMs":1e12}'])
    expect(retryAfterOf(reason)).toBeUndefined();
  expect(new Set(Object.values(CLOSE)).size).toBe(Object.keys(CLOSE).length);
});

it("accepts connect tokens of one node and at most a minute", () => {
  const claims = { iss: op, sub: op, aud: "a", iat: 100, exp: 160, jti: op };
  expect(connectClaims.safeParse(claims).success).toBe(true);
  expect(connectClaims.safeParse({ ...claims, exp: 161 }).success).toBe(false);
  expect(connectClaims.safeParse({ ...claims, exp: 100 }).success).toBe(false);
  expect(connectClaims.safeParse({ ...claims, sub: op.replace("0", "1") }).success).toBe(false);
});
