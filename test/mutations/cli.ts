import type { Mutation } from "./mutation.ts";

const IMPORT = ["test/http/cli-import.test.ts"];
const WRITE = { file: "packages/cli/src/import/write-secret.ts", suites: IMPORT };
const IMPORTER = { file: "packages/cli/src/import/importer.ts", suites: IMPORT };
const API = { file: "packages/cli/src/api.ts", suites: IMPORT };
const PATHS = { file: "packages/cli/src/api.ts", suites: ["packages/cli/src/api.test.ts"] };
const JSON_TEXT = { file: "packages/cli/src/json.ts", suites: ["packages/cli/src/json.test.ts"] };
const STATES = { file: "packages/cli/src/import/history.ts", suites: ["packages/cli/src/import/history.test.ts"] };
const SNAPSHOT = { file: "packages/cli/src/snapshot.ts", suites: ["test/http/cli.test.ts"] };

export const cli: Mutation[] = [
  {
    ...WRITE,
    find: "for (let version = current + 1; version <= source.current; version++) {",
    replace: "for (let version = 1; version <= source.current; version++) {",
    promise: "An import continues after the versions that exist",
  },
  {
    ...WRITE,
    find: "if (blanks.length > 0) await target.destroy(blanks);",
    replace: "",
    promise: "Versions without a value at the source are destroyed",
  },
  {
    ...WRITE,
    find: "} else if (isBlank) blanks.push(version);",
    replace: "} else if (isBlank) continue;",
    promise: "Blank versions of an interrupted run are destroyed by the next one",
  },
  {
    ...WRITE,
    find: "if (!isEqual(during, source.settings)) await target.set(source.settings);",
    replace: "",
    promise: "A secret has the settings of its source after its versions are written",
  },
  {
    ...WRITE,
    find: "if (found !== null && !overwrite)",
    replace: "if (false)",
    promise: "A value of version 1 that differs is kept",
  },
  {
    ...IMPORTER,
    find: "const sets = mount.version === 2 && !isSame && isUnset",
    replace: "const sets = false && isUnset",
    promise: "A mount has the configuration of its source",
  },
  {
    ...API,
    find: "if (!TRANSIENT.has(status) || attempt >= this.#retries)",
    replace: "if (true)",
    promise: "Transient failures are repeated",
  },
  {
    ...PATHS,
    find: 'segment === "." || segment === ".."',
    replace: 'segment === "."',
    promise: "A name that a URL resolves is not requested",
  },
  {
    ...JSON_TEXT,
    find: '.sort(([a = ""], [b = ""]) => (a < b ? -1 : 1))',
    replace: "",
    promise: "Values with members in another order are equal",
  },
  {
    ...STATES,
    find: "!(Date.parse(deletion_time) > now)",
    replace: "true",
    promise: "A version that will be deleted later is live",
  },
  {
    ...SNAPSHOT,
    find: "rmSync(part, { force: true });",
    replace: "",
    promise: "A snapshot that breaks off leaves no file",
  },
];
