import { rmSync } from "node:fs";
import { availableParallelism, tmpdir, totalmem } from "node:os";
import { join } from "node:path";
import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-pool-workers";
import { defineConfig } from "vitest/config";
import { LongestFirst } from "./scripts/longest-first.ts";
import { keepTemporaryFilesInMemory } from "./scripts/memory-disk.ts";

keepTemporaryFilesInMemory();
// Agents, drivers and services are started hundreds of times from the same sources.
process.env["NODE_COMPILE_CACHE"] ??= join(tmpdir(), "compiled");
/** Files that the suites of one run build once and share, see test/http/prepared-*.ts. */
const prepared = join(tmpdir(), `prepared-${process.pid}`);
process.env["PREPARED"] = prepared;
process.once("exit", () => rmSync(prepared, { recursive: true, force: true }));

// Clients prefer the address and the token of the caller's shell, such as those that `npm start` prints.
for (const name of Object.keys(process.env)) if (/^(VAULT|BAO|NOMAD)_/.test(name)) delete process.env[name];

/** A key for tests only: 32 zero bytes would do, but a value that looks like a key finds code that expects one. */
const TEST_MASTER_KEY = Buffer.from("sallyport-tests-use-this-master!").toString("base64");

/** The container's, when there is one: 0 or more than there is means that there is no limit. */
const memory = Math.min(totalmem(), process.constrainedMemory() || totalmem());
/** Most tests wait more than they compute: for alarms, back-offs, and doubles that are slow on purpose. Each has up to half a GiB. */
const FILES_AT_ONCE = Math.max(2, Math.min(2 * availableParallelism() + 1, Math.floor(memory / 2 ** 30) - 1, 8));

/** Polling ends as soon as the condition holds; a busy machine may need much longer than an idle one. */
const PATIENT = { poll: { timeout: 30_000 } };
/** The same for `vi.waitFor` and `vi.waitUntil`. */
const PATIENCE = "./test/support/patience.ts";

/** Adapters of providers against their doubles: each file loads the same code, and none starts a process. */
const PROVIDERS = "cloud-*|deploy-project-*|destination-*|repo-host-*|provider-*";

/** `npm run test:long` sets it: all rows and rounds, see test/support/long.ts. */
const LONG_TESTS = String(process.env["LONG_TESTS"] === "1");
/** The steps of each random walk against the model of rules, instead of its own number. */
const RANDOM_STEPS = String(Number(process.env["RANDOM_STEPS"] ?? 0));

export default defineConfig({
  test: {
    teardownTimeout: 60_000,
    maxWorkers: FILES_AT_ONCE,
    sequence: { sequencer: LongestFirst },
    // After the last test of a runtime an object may still call the Worker, whose modules are no longer served then.
    // After a test its objects may still call each other (test/workers/own-deployment.ts).
    onUnhandledError: ({ name, message }) =>
      !(name === "EnvironmentTeardownError" && message.includes("Closing rpc while")) &&
      message !== "the deployment of this test has ended",
    // Tests provoke failures on purpose, so logs matter only when a test fails.
    silent: "passed-only",
    projects: [
      {
        define: { LONG_TESTS, RANDOM_STEPS },
        plugins: [
          cloudflareTest(async ({ inject }) => ({
            wrangler: { configPath: "./wrangler.toml" },
            verbose: false,
            miniflare: {
              bindings: {
                TEST_MIGRATIONS: await readD1Migrations("./migrations"),
                MASTER_KEY: TEST_MASTER_KEY,
                DEV_ROOT_TOKEN: "root",
                BOOTSTRAP_SECRET: "bootstrap-secret-of-the-tests",
                EVENT_HEARTBEAT_MS: "300",
                ...inject("providerSettings"),
                TEST_CLOUD_A: inject("cloudA"),
                PRIVATE_HOSTS: "127.0.0.1 localhost *.corp.internal *.lost.internal",
                PRIVATE_NETWORKS: "*.corp.internal=TEST_NETWORK, *.lost.internal=ABSENT",
                SYNC_ALLOWED_HOSTS: `${inject("providerSettings")["SYNC_ALLOWED_HOSTS"]} *.corp.internal`,
                TEST_DOUBLES: inject("doubles"),
                TEST_STAND_INS: inject("standIns"),
              },
              // A network behind a binding: `p8080.corp.internal` is the port 8080 of this machine there, and nowhere else.
              serviceBindings: {
                TEST_NETWORK: (request) => {
                  const { hostname, pathname, search } = new URL(request.url);
                  const [, port = "1"] = /^p(\d+)\./.exec(hostname) ?? [];
                  return fetch(
                    `http://127.0.0.1:${port}${pathname}${search}`,
                    request as unknown as RequestInit,
                  ) as never;
                },
              },
              queueConsumers: {
                "sync-work": { maxBatchTimeout: 0.01, maxBatchSize: 10 },
                "sync-work-dead": { maxBatchTimeout: 0.01, maxBatchSize: 10 },
              },
            },
          })),
        ],
        // Silences warnings about source maps that packages forgot to ship.
        logLevel: "error",
        test: {
          name: "workers",
          include: ["test/workers/**/*.test.ts", "test/crash/**/*.test.ts"],
          globalSetup: ["./test/doubles/setup.ts", "./test/openapi/setup.ts"],
          setupFiles: [PATIENCE, "./test/workers/setup.ts"],
          // To start a runtime and load the Worker into it takes as long as most files.
          isolate: false,
          expect: PATIENT,
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
      {
        define: { LONG_TESTS, RANDOM_STEPS },
        test: {
          name: "unit",
          include: [
            "{src,agent/src,packages/*/src}/**/*.test.ts",
            "test/{mutations,read-leases,style,support}/**/*.test.ts",
          ],
          setupFiles: [PATIENCE],
          isolate: false,
          expect: PATIENT,
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
      {
        define: { LONG_TESTS, RANDOM_STEPS },
        test: {
          name: "doubles",
          include: ["test/doubles/**/*.test.ts"],
          setupFiles: [PATIENCE],
          isolate: false,
          expect: PATIENT,
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
      {
        define: { LONG_TESTS, RANDOM_STEPS },
        test: {
          name: "http",
          // Not by `exclude`, which would replace that of the command line (scripts/test.ts).
          include: [`test/http/!(${PROVIDERS}).test.ts`],
          setupFiles: [PATIENCE, "./test/http/setup.ts"],
          // Each file starts processes of its own; to load the same modules again takes longer than many files.
          isolate: false,
          expect: PATIENT,
          testTimeout: 60_000,
          // Many start a runtime first.
          hookTimeout: 300_000,
        },
      },
      {
        define: { LONG_TESTS, RANDOM_STEPS },
        test: {
          name: "providers",
          include: [`test/http/@(${PROVIDERS}).test.ts`],
          setupFiles: [PATIENCE],
          isolate: false,
          expect: PATIENT,
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
      {
        define: { LONG_TESTS, RANDOM_STEPS },
        test: {
          name: "smoke",
          include: ["test/smoke/**/*.test.ts", "test/abuse/**/*.test.ts"],
          setupFiles: [PATIENCE],
          expect: PATIENT,
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
      {
        test: {
          name: "clients",
          include: ["test/clients/**/*.test.ts"],
          globalSetup: ["./test/clients/setup.ts"],
          setupFiles: [PATIENCE],
          isolate: false,
          expect: PATIENT,
          testTimeout: 300_000,
          hookTimeout: 300_000,
        },
      },
      {
        test: {
          name: "console",
          include: ["test/console/**/*.test.ts"],
          globalSetup: ["./test/console/support/setup.ts"],
          setupFiles: [PATIENCE],
          // Files share one browser and a page of it.
          isolate: false,
          expect: PATIENT,
          testTimeout: 300_000,
          hookTimeout: 300_000,
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
