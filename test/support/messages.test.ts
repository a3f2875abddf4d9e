import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import type { MessageType } from "../../src/contracts/event-subscription.ts";
import { type Notification, SEVERITIES } from "../../src/contracts/notification-rule.ts";
import { formats } from "../../src/events/subscriptions/formats/formats.ts";
import { pythonPackage } from "../clients/python.ts";

/*
 * Messages are judged by what the vendors publish: the types of their packages, with excess properties refused, the
 * parser of Adaptive Cards, and the models of Opsgenie's client.
 */

/** Exact versions, which the long run installs into the cache folder of the user. */
const PACKAGES = [
  "@slack/types@3.2.0",
  "@slack/webhook@8.0.2",
  "adaptivecards@3.0.6",
  "@pagerduty/pdjs@2.2.4",
  "@sendgrid/helpers@8.0.0",
  "postmark@5.1.0",
  "mailgun.js@14.0.1",
];

/** The types of a body. */
const TYPES: Readonly<Partial<Record<MessageType, readonly [name: string, of: string]>>> = {
  slack: ["IncomingWebhookSendArguments", "@slack/webhook"],
  pagerduty: ["PagerDutyEvent", "./pagerduty.ts"],
  sendgrid: ["MailJSON", "@sendgrid/helpers/classes/mail"],
  postmark: ["PostmarkMessage", "./postmark.ts"],
  mailgun: ["MailgunMessageData", "mailgun.js/definitions"],
};

/** An event of the type `resolve` has no payload, and `client` is missing in the package: both are in the API's schema. */
const PAGERDUTY = `import type { EventParameters } from "@pagerduty/pdjs/build/src/events";
type Event = EventParameters["data"];
export type PagerDutyEvent =
  | (Event & { event_action: "trigger"; client?: string })
  | (Omit<Event, "payload"> & { event_action: "resolve" });
`;
const POSTMARK = `import type { Message } from "postmark";
export type PostmarkMessage = Message;
`;

const LONG = "x".repeat(40_000);
const BASE: Notification = {
  Rule: "sync",
  Condition: "sync-failing",
  Status: "firing",
  Severity: "warning",
  Title: "Sync fails: cloud-a-sm/prod",
  Text: "• cloud-a-sm/prod: 1 CLIENT_SIDE_ERROR\n• <b>&",
  Subjects: [{ Name: "cloud-a-sm/prod", Detail: "1 CLIENT_SIDE_ERROR", Since: "2026-11-28T10:00:00.000Z" }],
  Total: 1,
  DedupKey: "sallyport/sync",
  Time: "2026-11-28T10:05:00.000Z",
};
const NOTIFICATIONS: readonly Notification[] = [
  ...SEVERITIES.map((Severity) => ({ ...BASE, Severity })),
  { ...BASE, Status: "resolved" },
  { ...BASE, Status: "test", Text: "", Subjects: [], Total: 0 },
  {
    ...BASE,
    Title: `${LONG}🔑`,
    Text: LONG,
    DedupKey: `sallyport/${LONG}`,
    Subjects: Array.from({ length: 100 }, () => ({ Name: LONG.slice(0, 500), Detail: LONG.slice(0, 500), Since: "" })),
  },
];

/** Bodies as objects; a form's fields are texts. */
function bodies(type: MessageType): object[] {
  const options = { from: "sallyport@acme.example", to: "ops@acme.example,night@acme.example" };
  const url = formats[type].url ?? "https://receiver.example/";
  return NOTIFICATIONS.map((notification) => {
    const request = formats[type].request({ url, secret: "s".repeat(32), options, notification });
    return request.headers["Content-Type"] === "application/json"
      ? (JSON.parse(request.body) as object)
      : Object.fromEntries(new URLSearchParams(request.body));
  });
}

/** The folder with the packages; a text says why there is none. */
function installed(): { readonly dir: string; readonly missing: string | null } {
  const cache = process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache");
  const dir = join(cache, "sallyport-clients", `messages-${PACKAGES.join("-").replaceAll(/[^\w.]+/g, "-")}`);
  if (existsSync(dir)) return { dir, missing: null };
  if (process.env["LONG_TESTS"] !== "1") return { dir, missing: "npm run test:long installs them" };
  const partial = `${dir}.${process.pid}`;
  mkdirSync(partial, { recursive: true });
  const args = ["install", "--prefix", partial, "--no-audit", "--no-fund", "--ignore-scripts", ...PACKAGES];
  const { status } = spawnSync("npm", args, { cwd: partial, timeout: 300_000, encoding: "utf8" });
  if (status !== 0) {
    rmSync(partial, { recursive: true, force: true });
    return { dir, missing: "npm cannot install them" };
  }
  renameSync(partial, dir);
  return { dir, missing: null };
}

const packages = installed();

describe.skipIf(packages.missing !== null)("messages to services, by the vendors' packages", () => {
  /** Errors of the compiler for bodies as literals. */
  function judged(all: Readonly<Partial<Record<MessageType, readonly object[]>>>): string[] {
    const dir = mkdtempSync(join(packages.dir, "judge-"));
    onTestFinished(() => rmSync(dir, { recursive: true }));
    writeFileSync(join(dir, "pagerduty.ts"), PAGERDUTY);
    writeFileSync(join(dir, "postmark.ts"), POSTMARK);
    for (const [type, each] of Object.entries(all)) {
      const [name, of] = TYPES[type as MessageType] ?? expect.fail(type);
      const lines = each.map((body, at) => `export const message${at}: ${name} = ${JSON.stringify(body)};`);
      writeFileSync(join(dir, `${type}.message.ts`), [`import type { ${name} } from "${of}";`, ...lines].join("\n"));
    }
    const options = [
      "--ignoreConfig",
      "--noEmit",
      "--strict",
      "--skipLibCheck",
      "--module",
      "preserve",
      "--target",
      "esnext",
    ];
    const files = Object.keys(all).map((type) => join(dir, `${type}.message.ts`));
    const types = ["--allowImportingTsExtensions", "--types", "node", "--typeRoots", resolve("node_modules/@types")];
    const tsc = resolve("node_modules/.bin/tsc");
    const { stdout } = spawnSync(tsc, [...options, ...types, ...files], { encoding: "utf8" });
    return stdout
      .split("\n")
      .filter((line) => /error TS/.test(line))
      .map((line) => line.slice(0, 300));
  }

  it("have the fields and values of the types", () => {
    const types = Object.keys(TYPES) as MessageType[];
    expect(judged(Object.fromEntries(types.map((type) => [type, bodies(type)])))).toEqual([]);
  });

  it("would not pass with another field or value", () => {
    const types = Object.keys(TYPES) as MessageType[];
    const broken = types.map((type) => [type, [{ ...bodies(type)[0], unknown_field: 1 }]] as const);
    const errors = judged(Object.fromEntries(broken));
    // Mailgun's type takes fields of any name.
    for (const type of types) if (type !== "mailgun") expect(errors.join("\n")).toContain(`${type}.message.ts`);
    const [event] = bodies("pagerduty") as { payload: object }[];
    expect(judged({ pagerduty: [{ ...event, payload: { ...event?.payload, severity: "fatal" } }] })).toHaveLength(1);
  });

  it("are cards that the parser of Adaptive Cards reads without a remark", () => {
    const { AdaptiveCard, SerializationContext, Versions } = createRequire(join(packages.dir, "package.json"))(
      "adaptivecards/dist/adaptivecards.js",
    );
    const remarks = (content: unknown): string[] => {
      const context = new SerializationContext(Versions.v1_4);
      const card = new AdaptiveCard();
      card.parse(content, context);
      return [
        ...Array.from({ length: context.eventCount }, (_, at) => String(context.getEventAt(at).message)),
        ...card.validateProperties().validationEvents.map(({ message }: { message: string }) => message),
      ];
    };
    for (const body of bodies("teams") as { attachments: { content: { body: object[] } }[] }[]) {
      const { content } = body.attachments[0] ?? expect.fail();
      expect(remarks(content)).toEqual([]);
      expect(remarks({ ...content, body: [{ ...content.body[0], color: "Purple" }] })).not.toEqual([]);
      expect(Buffer.byteLength(JSON.stringify(body))).toBeLessThan(28 * 1024);
    }
  });
});

const opsgenie = pythonPackage("opsgenie-sdk==2.1.5");

describe.skipIf(opsgenie.missing !== null)("alerts, by the models of Opsgenie's client", () => {
  it("have its fields and priorities", () => {
    const program = `
import json, sys
from opsgenie_sdk import CreateAlertPayload, CloseAlertPayload
for body in json.load(sys.stdin):
    model = CloseAlertPayload if "note" in body else CreateAlertPayload
    names = {wire: name for name, wire in model.attribute_map.items()}
    print(json.dumps(sorted(set(body) - set(names))))
    model(**{names[wire]: value for wire, value in body.items() if wire in names})
`;
    const judge = (input: readonly object[]) =>
      spawnSync("python3", ["-c", program], {
        env: { ...process.env, PYTHONPATH: opsgenie.dir },
        input: JSON.stringify(input),
        encoding: "utf8",
      });
    const all = bodies("opsgenie");
    const { stdout, stderr, status } = judge(all);
    expect({ unknown: stdout.trim().split("\n"), stderr, status }).toEqual({
      unknown: all.map(() => "[]"),
      stderr: "",
      status: 0,
    });
    expect(judge([{ ...all[0], priority: "P9" }]).stderr).toContain("must be one of");
  });
});
