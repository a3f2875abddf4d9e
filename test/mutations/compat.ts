import type { Mutation } from "./mutation.ts";

const FIELDS = {
  file: "src/platform/http/fields.ts",
  suites: ["src/platform/http/fields.test.ts", "test/workers/durations.test.ts"],
};
const UNKNOWN = {
  file: "src/platform/http/unknown-fields.ts",
  suites: ["src/platform/http/unknown-fields.test.ts"],
};
const BODY = { file: "src/routes/server/body.ts", suites: ["test/workers/fields.test.ts"] };
const SYNC_NAMES = { file: "src/compat/sync-names.ts", suites: ["src/compat/sync-names.test.ts"] };
const SYNC_PATHS = { file: "src/compat/sync-paths.ts", suites: ["src/compat/sync-paths.test.ts"] };
const ROLE_NAMES = { file: "src/compat/cloud-b-names.ts", suites: ["test/workers/terraform.test.ts"] };

export const compat: Mutation[] = [
  {
    ...FIELDS,
    find: "return Number((scaled + second - 1n) / second);",
    replace: "return Number(scaled / second);",
    promise: "A part of a second is a whole one, never 0, which means unlimited",
  },
  {
    ...FIELDS,
    find: "asDuration(signedDuration().refine((seconds) => seconds >= 0, whenNegative));",
    replace: "asDuration(signedDuration().refine((seconds) => seconds >= -1, whenNegative));",
    promise: "Negative durations are refused",
  },
  {
    ...FIELDS,
    find: "Math.abs(seconds) <= MAX_DURATION",
    replace: "seconds <= MAX_DURATION * 2",
    promise: "No duration is longer than 100 years",
  },
  {
    ...FIELDS,
    find: 'parts.map(([part]) => part).join("") !== rest',
    replace: "false",
    promise: "A text with more than a duration in it is none",
  },
  {
    ...UNKNOWN,
    find: "const inside = known.names.get(known.caseless ? name.toLowerCase() : name);",
    replace: "const inside = known.names.get(name.toLowerCase());",
    promise: "In the secrets API the case of a field counts",
  },
  {
    ...UNKNOWN,
    find: "else found.push(...unknownFields(inside, value, `${at}${name}.`));",
    replace: "",
    promise: "Fields inside objects are told, too",
  },
  {
    ...UNKNOWN,
    find: "return body.flatMap((item) => unknownFields(known, item, at)).slice(0, MAX_REPORTED);",
    replace: "return [];",
    promise: "Fields of objects in lists are told, too",
  },
  {
    ...UNKNOWN,
    find: "const fields = Object.entries(def.shape).filter(([, field]) => !isInternal(field));",
    replace: "const fields = Object.entries(def.shape);",
    promise: "No caller can give a field that the schema adds",
  },
  {
    ...UNKNOWN,
    find: "near.filter(([, edits]) => edits <= most)",
    replace: "near.filter(([, edits]) => edits <= most + 2)",
    promise: "Only a resembling field is said to have been meant",
  },
  {
    ...UNKNOWN,
    find: ".sort(([, one], [, other]) => one - other)",
    replace: "",
    promise: "The nearest field is said to have been meant",
  },
  {
    ...UNKNOWN,
    find: "if (value === null || found.length >= MAX_REPORTED) continue;",
    replace: "if (found.length >= MAX_REPORTED) continue;",
    promise: "Null stands for a field that is left out",
  },
  {
    ...BODY,
    find: "Object.hasOwn(params, name) && String(value) === params[name];",
    replace: "Object.hasOwn(params, name);",
    promise: "A name in the body that differs from the path's is told",
  },
  {
    ...BODY,
    find: 'if (area === "cluster" && unknown.length > 0) throw badRequest(unknownFieldsText(unknown));',
    replace: "",
    promise: "Areas C and D refuse a body with a field that nothing reads",
  },
  {
    ...BODY,
    find: 'unknown: area === "secrets" ? allUnknown(text, params) : []',
    replace: "unknown: []",
    promise: "Routes without a body tell of fields, too",
  },
  {
    ...SYNC_NAMES,
    find: 'const isShown = dialect === "neutral" || isGiven;',
    replace: "const isShown = true;",
    promise: "The upstream dialect has a level of granularity only where one was given",
  },
  {
    ...SYNC_NAMES,
    find: "if (/\\bdestinations\\b/.test(start) && list.every((item) => LISTED.test(item))) {",
    replace: "if (list.every((item) => LISTED.test(item))) {",
    promise: "What people named is left alone in refusals",
  },
  {
    ...SYNC_PATHS,
    find: 'if (sys !== "sys" || sync !== "sync") return null;',
    replace: 'if (sync !== "sync") return null;',
    promise: "Only paths below sys/sync have two names",
  },
  {
    ...SYNC_PATHS,
    find: 'const segment = folder === "destinations" ? 3 : 2;',
    replace: "const segment = 3;",
    promise: "The folder of applications has two names",
  },
  {
    ...ROLE_NAMES,
    find: "if (text === undefined && role[field] === 0) delete shown[field];",
    replace: "",
    promise: "The upstream dialect leaves out a duration that was not written",
  },
  {
    ...ROLE_NAMES,
    find: 'if (typeof text === "string" && !/^\\+?\\d*$/.test(text.trim())) shown[field] = text;',
    replace: "",
    promise: "The upstream dialect answers durations as they were written",
  },
  {
    file: "src/sync/definition.ts",
    find: "before?.granularityGiven ? before.granularity : undefined",
    replace: "undefined",
    suites: ["test/workers/sync-api-types.test.ts"],
    promise: "A write keeps the granularity that it leaves out",
  },
  {
    file: "src/sync/definition.ts",
    find: "const [was, is] = [resolved(type, before), resolved(type, after)];",
    replace: "const [was, is] = [before, after];",
    suites: ["test/workers/sync-api-types.test.ts"],
    promise: "Another spelling of a fixed field is the same value",
  },
  {
    file: "src/credentials/role.ts",
    find: "const written = { ...old.written, ...body.written };",
    replace: "const written = { ...body.written };",
    suites: ["test/workers/terraform.test.ts"],
    promise: "What an update leaves out stays as it was written",
  },
  {
    file: "src/access/mounts/mounts.ts",
    find: "name in NEW_CONFIG || (value as string).length > 0",
    replace: "true",
    suites: ["test/workers/terraform.test.ts"],
    promise: "An empty list takes a setting of a mount away",
  },
];
