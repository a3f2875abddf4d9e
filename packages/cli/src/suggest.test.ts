import { describe, expect, it } from "vitest";
import { type Command, command, flag, text, texts } from "./command.ts";
import { commandFault, optionFaultOf } from "./suggest.ts";

const named = (...words: string[]): Command =>
  command({ words, summary: "does it", about: "", options: {}, run: async () => 0 });
const COMMANDS = [
  named("login"),
  named("kv", "get"),
  named("kv", "list"),
  named("kv", "rm"),
  named("run"),
  named("sync", "status"),
  named("snapshot", "save"),
  named("snapshot", "list"),
  named("doctor"),
  { ...named("complete"), summary: "" },
];

describe("commandFault", () => {
  it.each([
    ["kv gte", 'no command "kv gte": did you mean `kv get`?'],
    ["kv ls", 'no command "kv ls": did you mean `kv list`?'],
    ["kv delete", 'no command "kv delete": did you mean `kv rm`?'],
    ["kv sav", 'no command "kv sav": the commands of kv are get, list, rm'],
    ["kv", "name a command of kv: get, list, rm"],
    ["secrets", 'no command "secrets": did you mean `kv` with get, list, rm?'],
    ["logn", 'no command "logn": did you mean `login`?'],
    ["snap", 'no command "snap": did you mean `snapshot` with save, list?'],
    ["get secret/app", 'no command "get": did you mean `kv get`?'],
    ["LIST", 'no command "LIST": did you mean `kv list` or `snapshot list`?'],
    ["status", 'no command "status": did you mean `sync status` or `doctor`?'],
    ["delete", 'no command "delete": did you mean `kv rm`?'],
    ["complte", 'no command "complte": the commands are login, kv, run, sync, snapshot, doctor'],
    ["bogus", 'no command "bogus": the commands are login, kv, run, sync, snapshot, doctor'],
  ])("answers %j", (given, fault) => expect(commandFault(given.split(" "), COMMANDS)).toBe(fault));
});

describe("optionFaultOf", () => {
  const get = {
    args: [{ name: "PATH", help: "" }],
    options: { field: text("KEY", ""), version: text("N", ""), namespace: text("NAME", ""), json: flag("") },
  };
  const run = { args: [{ name: "COMMAND...", help: "" }], options: { path: texts("PATH", ""), upper: flag("") } };
  it.each([
    ["--feild=hunter2", get, "--feild: no such option: did you mean `--field`?"],
    ["-field=hunter2", get, "-field: no such option: did you mean `--field`?"],
    ["--name", get, "--name: no such option: did you mean `--namespace`?"],
    ["-ns=team", get, "-ns: no such option: did you mean `--namespace`?"],
    ["--format=json", get, "--format: no such option: did you mean `--json`?"],
    ["--format", run, "--format: no such option"],
    ["--mount", get, "--mount: no such option: the mount is the first part of PATH, such as secret/app/db"],
    ["-moutn=x", get, "-moutn: no such option: the mount is the first part of PATH, such as secret/app/db"],
    ["--mount", run, "--mount: no such option: the mount is the first part of --path, such as secret/app/db"],
    ["--mount", { options: {} }, "--mount: no such option"],
    ["--token=hunter2", get, "--token: no such option: SALLYPORT_TOKEN is the token, else that of `sallyport login`"],
    ["--unknown", get, "--unknown: no such option"],
    ["-x", get, "-x: no such option"],
  ])("answers %s", (given, command, fault) => expect(optionFaultOf(given, command)).toBe(fault));
});
