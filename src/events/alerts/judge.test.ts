import { describe, expect, it } from "vitest";
import type { Alert, NotificationRule } from "../../contracts/notification-rule.ts";
import { judge } from "./judge.ts";
import { isQuiet } from "./quiet-hours.ts";

const RULE: NotificationRule = {
  condition: "sync-failing",
  subjects: [],
  forSeconds: 60,
  withinSeconds: null,
  percent: null,
  severity: "warning",
  channels: ["ops"],
  groupBy: "rule",
  repeatSeconds: 0,
  recovery: true,
  quiet: null,
  title: "",
  text: "",
};

/** Rounds of a rule, a minute apart: the subjects seen in each, and the messages of each. */
function rounds(rule: Partial<NotificationRule>, ...seen: readonly (readonly string[] | null)[]): string[][] {
  let alerts: readonly Alert[] = [];
  return seen.map((subjects, minute) => {
    const found = { subjects: new Map((subjects ?? []).map((each) => [each, ""])), isWhole: subjects !== null };
    const judged = judge({ ...RULE, ...rule }, alerts, found, minute * 60_000);
    alerts = judged.alerts;
    return judged.due.map(({ status, alerts: about }) => `${status} ${about.map(({ subject }) => subject).join()}`);
  });
}

describe("a rule", () => {
  it("sends a condition once it has lasted, and its end", () => {
    expect(rounds({}, ["a"], ["a"], ["a"], [])).toEqual([[], ["firing a"], [], ["resolved a"]]);
  });

  it("sends nothing of a condition that is shorter", () => {
    expect(rounds({}, ["a"], [], ["a"], [])).toEqual([[], [], [], []]);
  });

  it("sends a condition that returns again", () => {
    const seen = [["a"], ["a"], [], ["a"], ["a"]];
    expect(rounds({}, ...seen)).toEqual([[], ["firing a"], ["resolved a"], [], ["firing a"]]);
  });

  it("sends a further subject with all that hold, and the recovery after the last", () => {
    const seen = [["a"], ["a", "b"], ["a", "b"], ["b"], []];
    expect(rounds({}, ...seen)).toEqual([[], ["firing a"], ["firing a,b"], [], ["resolved a,b"]]);
  });

  it("sends a subject that returns while another of its group lasts", () => {
    const seen = [["a", "b"], ["a", "b"], ["b"], ["a", "b"], ["a", "b"]];
    expect(rounds({}, ...seen)).toEqual([[], ["firing a,b"], [], [], ["firing b,a"]]);
  });

  it("sends one recovery of an incident whose subject returns and ends again before it is sent", () => {
    const seen = [["a", "b"], ["a", "b"], ["b"], ["a"], []];
    expect(rounds({}, ...seen)).toEqual([[], ["firing a,b"], [], ["resolved b"], []]);
  });

  it("takes a subject for ended that was looked at, although not everything was", () => {
    const alert = (subject: string): Alert => ({ subject, state: "firing", since: 0, notified: 1, detail: "" });
    const lookedAt = (subject: string) => subject === "a";
    const seen = { subjects: new Map(), isWhole: false, lookedAt };
    const { alerts, due } = judge({ ...RULE, groupBy: "subject" }, [alert("a"), alert("b")], seen, 60_000);
    expect([due.map(({ group, status }) => `${status} ${group}`), alerts]).toEqual([["resolved a"], [alert("b")]]);
  });

  it("sends each subject by itself when it groups by subject", () => {
    const seen = [["a", "b"], ["a", "b"], ["b"]];
    expect(rounds({ groupBy: "subject" }, ...seen)).toEqual([[], ["firing a", "firing b"], ["resolved a"]]);
  });

  it("repeats a condition that lasts", () => {
    const seen = Array.from({ length: 6 }, () => ["a"]);
    expect(rounds({ repeatSeconds: 120 }, ...seen)).toEqual([[], ["firing a"], [], ["firing a"], [], ["firing a"]]);
  });

  it("takes no subject for ended that was not looked at", () => {
    expect(rounds({}, ["a"], ["a"], null, null, [])).toEqual([[], ["firing a"], [], [], ["resolved a"]]);
  });

  it("watches only the subjects that it names", () => {
    expect(rounds({ subjects: ["x/*", "b"], forSeconds: 0 }, ["a", "b", "x/1"])).toEqual([["firing b,x/1"]]);
  });

  it("sends after quiet hours the subjects of that moment, none that began and ended meanwhile", () => {
    // The rounds begin at midnight UTC.
    const quiet = { from: "00:02", to: "00:04", days: [], timeZone: "UTC" };
    expect(rounds({ quiet, forSeconds: 0 }, ["a"], ["a"], ["b"], ["b", "c"], ["c"])).toEqual([
      ["firing a"],
      [],
      [],
      [],
      ["firing c"],
    ]);
  });

  it("sends after quiet hours the end of a subject that has returned and ended meanwhile", () => {
    const quiet = { from: "00:02", to: "00:06", days: [], timeZone: "UTC" };
    const seen = [["a"], ["a"], [], ["a"], [], [], []];
    expect(rounds({ quiet, forSeconds: 60 }, ...seen)).toEqual([[], ["firing a"], [], [], [], [], ["resolved a"]]);
  });

  it("repeats the details of the moment, not of the first sighting", () => {
    const alerts = (detail: string, before: readonly Alert[], now: number) =>
      judge(
        { ...RULE, forSeconds: 0, repeatSeconds: 60 },
        before,
        { subjects: new Map([["a", detail]]), isWhole: true },
        now,
      );
    const first = alerts("ends in 13 d", [], 0);
    const second = alerts("ends in 12 d", first.alerts, 60_000);
    expect(second.due[0]?.alerts.map(({ detail }) => detail)).toEqual(["ends in 12 d"]);
  });
});

describe("quiet hours", () => {
  const at = (text: string): number => Date.parse(text);

  it.each([
    ["2026-11-28T21:59:59Z", false],
    ["2026-11-28T22:00:00Z", true],
    ["2026-11-29T06:59:59Z", true],
    ["2026-11-29T07:00:00Z", false],
  ])("over midnight include %s: %s", (time, wanted) => {
    expect(isQuiet({ from: "22:00", to: "07:00", days: [], timeZone: "UTC" }, at(time))).toBe(wanted);
  });

  it.each([
    // The 28th is a Saturday.
    ["2026-11-28T23:00:00Z", true],
    ["2026-11-29T05:00:00Z", true],
    ["2026-11-29T23:00:00Z", false],
    ["2026-11-28T05:00:00Z", false],
  ])("belong to the day on which they begin: %s is %s", (time, wanted) => {
    expect(isQuiet({ from: "22:00", to: "07:00", days: [6], timeZone: "UTC" }, at(time))).toBe(wanted);
  });

  it.each([
    ["2026-07-01T07:30:00Z", true],
    ["2026-12-01T07:30:00Z", false],
  ])("follow the summer time of their zone: %s is %s", (time, wanted) => {
    expect(isQuiet({ from: "09:00", to: "10:00", days: [], timeZone: "Europe/Berlin" }, at(time))).toBe(wanted);
  });

  it("with equal ends last the whole day", () => {
    const days = { from: "08:00", to: "08:00", days: [], timeZone: "UTC" };
    expect([at("2026-11-28T07:59:00Z"), at("2026-11-28T08:00:00Z")].map((time) => isQuiet(days, time))).toEqual([
      true,
      true,
    ]);
  });
});
