import type { Mutation } from "./mutation.ts";

const STATE = ["test/http/local-state.test.ts"];
const SERVE = ["test/http/serve.test.ts"];
const FORWARDING = ["test/http/forwarding.test.ts"];

/** Production on one machine. */
export const served: Mutation[] = [
  {
    file: "scripts/local-state.ts",
    suites: STATE,
    find: "if ((about.ready === false && mayRemove) || afresh)",
    replace: "if (about.ready === false || afresh)",
    promise: "Production removes no data",
  },
  {
    file: "scripts/serve.ts",
    suites: SERVE,
    find: "    await gateway.stop();\n    await backups;\n    await supervisor?.stop();\n",
    replace: "    await supervisor?.stop();\n    await gateway.stop();\n    await backups;\n",
    promise: "Requests under way are answered before the service stops",
  },
  {
    file: "scripts/backups.ts",
    suites: SERVE,
    find: "slice(0, -keep)",
    replace: "slice(keep)",
    promise: "The newest backups stay",
  },
  {
    file: "scripts/backup-s3.ts",
    suites: ["test/http/backup-s3.test.ts"],
    find: "if (upload !== undefined) await this.#abort(key,",
    replace: "if (upload === null) await this.#abort(key,",
    promise: "A backup that breaks off leaves no parts in the bucket",
  },
  {
    file: "scripts/s3-client.ts",
    suites: ["test/http/backup-s3.test.ts"],
    find: "if (answer.ok && !/<Error>/.test(text))",
    replace: "if (answer.ok)",
    promise: "A completion that fails in its body is repeated",
  },
  {
    file: "scripts/forwarding.ts",
    suites: FORWARDING,
    find: 'items(head, "x-forwarded-for").reverse()',
    replace: 'items(head, "x-forwarded-for")',
    promise: "A client cannot choose its address behind a proxy",
  },
  {
    file: "scripts/forwarding.ts",
    suites: FORWARDING,
    find: "    if (!this.trusts(address)) return own;\n",
    replace: "",
    promise: "Only named proxies are believed",
  },
  {
    file: "scripts/gateway-rules.ts",
    suites: FORWARDING,
    find: "const kept = lines.filter((line) => !FORWARDED_FIELD.test(line));",
    replace: "const kept = lines;",
    promise: "The service sees no statement of a client about itself",
  },
];
