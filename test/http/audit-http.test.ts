import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type HttpTarget, sendLines } from "../../src/platform/observability/audit/http-sink.ts";
import { type IntakeFormat, LogIntake } from "../doubles/log-intake.ts";

/* The wire of HTTP sinks, against intakes that are stricter than the services. */

const TOKEN = "canary-token-of-the-intake";
const lines = Array.from({ length: 3 }, (_, number) =>
  JSON.stringify({
    level: "audit",
    kind: "answer",
    time: new Date(1_764_064_800_123 + number).toISOString(),
    // A path cannot pass for the time.
    requestId: String(number),
    path: '/v1/kv/"time":"1970-01-01T00:00:00.000Z"',
  }),
);

const FORMATS: readonly IntakeFormat[] = ["generic", "datadog", "splunk"];

describe.each(FORMATS)("an HTTP sink with the format %s", (format) => {
  let intake: LogIntake;
  let target: HttpTarget;

  beforeEach(async () => {
    intake = new LogIntake(format, TOKEN);
    await intake.start();
    target = { url: intake.url, format, token: TOKEN };
  });
  afterEach(() => intake.close());

  it("sends lines as its service documents", async () => {
    await sendLines(target, lines);
    expect(intake.refusals).toEqual([]);
    expect(intake.lines).toEqual(lines.map((line) => JSON.parse(line)));
    expect(intake.requests).toBe(1);
  });

  it.each([
    [{ status: 400, body: "no" }, "status 400"],
    [{ status: 429, body: "" }, "status 429"],
    [{ status: 503, body: '{"text":"Server is busy","code":9}' }, "status 503"],
    [{ status: 302, headers: { Location: "/elsewhere" } }, "status 302"],
  ])("fails at the answer %j, and says only its status", async (fault, message) => {
    intake.faults.push(fault);
    await expect(sendLines(target, lines)).rejects.toThrow(new Error(message));
    expect(intake.requests).toBe(1);
  });

  it("shows neither token nor URL when the token is wrong or the service is down", async () => {
    await expect(sendLines({ ...target, token: "other" }, lines)).rejects.toThrow(new Error("status 403"));
    await intake.close();
    await expect(sendLines(target, lines)).rejects.toThrow(new Error("no answer"));
    await intake.start();
  });
});

describe("an HTTP sink with the format splunk", () => {
  let intake: LogIntake;
  beforeEach(async () => {
    intake = new LogIntake("splunk", TOKEN);
    await intake.start();
  });
  afterEach(() => intake.close());
  const send = () => sendLines({ url: intake.url, format: "splunk", token: TOKEN }, lines);

  it("waits for the acknowledgement of the indexer where the token has that", async () => {
    intake.ackAfter = 2;
    await send();
    expect(intake.lines).toHaveLength(3);
    expect(intake.requests).toBe(4);
  });

  it("fails at a code other than 0", async () => {
    intake.faults.push({ status: 200, body: '{"text":"Incorrect index","code":7}' });
    await expect(send()).rejects.toThrow(new Error("not accepted"));
  });
});
