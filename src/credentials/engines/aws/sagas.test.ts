import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { randomFrom } from "../../../../test/crash/random.ts";
import type { Account } from "../../../../test/doubles/cloud-a/account.ts";
import { type IamDouble, startIam } from "../../../../test/doubles/cloud-a/server.ts";
import { failure } from "../../../../test/fake-cloud.ts";
import { amount, PROPERTY } from "../../../../test/support/long.ts";
import { SagaRun } from "../../../../test/support/saga-run.ts";
import type { Step } from "../../../contracts/credential-engine.ts";
import { setOutboundPolicy } from "../../../providers/outbound-url.ts";
import { sender } from "../../../providers/outcome.ts";
import { batchOf } from "../../runner/saga.ts";
import { awsCalls, type CloudStep, performStep } from "./calls.ts";
import { cloudA } from "./client.ts";
import { accountOf, changeConfig } from "./config.ts";
import { issueSaga, newIssue, orphansOfIssue, outcomeOfIssue, undoOfIssue } from "./issue.ts";
import { keyRemoval, removalSaga, revocationOf } from "./removal.ts";
import { draftRole } from "./role.ts";
import { beginRotation, outcomeOfRotation, rotationSaga, undoOfRotation } from "./rotation.ts";

/** The sagas of AWS with the real client against the double: Workers die anywhere, and answers are lost. */

let double: IamDouble;
beforeAll(async () => {
  setOutboundPolicy({ PRIVATE_HOSTS: "127.0.0.1" });
  double = await startIam();
});
afterAll(async () => {
  setOutboundPolicy({});
  await double.close();
});

const seeds = Array.from({ length: amount(60, 300) }, (_, seed) => seed + 1);

const unwrapped = <T>(result: { ok: true; value: T } | { ok: false; message: string }): T => {
  if (!result.ok) throw new Error(result.message);
  return result.value;
};

/** An account at the double, and a run of sagas with its key. */
function world(seed: number) {
  const opened = double.open();
  const { access_key, secret_key } = opened;
  const config = unwrapped(
    changeConfig(null, { access_key, secret_key, iam_endpoint: double.url, sts_endpoint: double.url }, null),
  );
  const account = accountOf(config, {});
  const runWith = (identity: ReturnType<typeof accountOf>, random: () => number) => {
    const send = sender({ deadlineMs: 600_000 });
    const cloud = cloudA(unwrapped(identity), { send, sendTo: send, assertion: undefined });
    return new SagaRun((step: Step) => performStep(cloud, step as CloudStep), awsCalls, random);
  };
  const random = randomFrom(seed);
  return {
    opened,
    config,
    account,
    random,
    runWith,
    run: runWith(account, random),
    at: double.account(opened.account),
  };
}

const issued = ({ users }: Account): string[] => [...users.keys()].filter((name) => name !== "sallyport");

describe("a user", () => {
  it("leaves nothing after Workers die during creation and removal, and after lost answers", PROPERTY, async () => {
    let lives = 0;
    for (const seed of seeds) {
      const { opened, account, run, at } = world(seed);
      const role = unwrapped(
        draftRole(
          null,
          {
            credential_type: "iam_user",
            policy_arns: [opened.policy_arn, "arn:aws:iam::aws:policy/PowerUserAccess"],
            policy_document: '{"Statement":[]}',
            iam_groups: ["developers", "auditors"],
          },
          null,
        ),
      );
      const context = { account: unwrapped(account), name: "app", displayName: "ann", lifeMs: 1_000, maxTtlMs: 1_000 };
      const begun = unwrapped(newIssue(role, { ...context, request: {} }));
      const made = await run.take(issueSaga, begun, 0.15);
      if (made.ended) {
        lives++;
        const { resources } = outcomeOfIssue(made.state, made.value);
        expect(issued(at), `seed ${seed}`).toHaveLength(1);
        const strays = orphansOfIssue(made.state, run.now);
        if (strays) await run.remove(removalSaga, strays);
        const [user] = at.users.values().filter(({ name }) => name !== "sallyport");
        expect(at.keysOf(user?.name ?? "").map(({ accessKeyId }) => accessKeyId)).toEqual([
          resources.kind === "user" ? resources.key : "",
        ]);
        await run.remove(removalSaga, revocationOf(resources, run.now));
      } else await run.remove(removalSaga, undoOfIssue(made.state, run.now));
      expect(issued(at), `seed ${seed}`).toEqual([]);
    }
    expect(lives).toBeGreaterThan(seeds.length / 10);
    expect(seeds.length - lives).toBeGreaterThan(seeds.length / 10);
  });
});

it.each(["getUser", "attachPolicy", "putPolicy", "addToGroup"])(
  "a user has one key after the death of its Worker, when the next one is throttled at %s",
  async (throttled) => {
    const { opened, account, at } = world(1);
    const policy_arns = [opened.policy_arn];
    const body = {
      credential_type: "iam_user",
      policy_arns,
      policy_document: '{"Statement":[]}',
      iam_groups: ["developers"],
    };
    const role = unwrapped(draftRole(null, body, null));
    const context = { account: unwrapped(account), name: "app", displayName: "ann", lifeMs: 1_000, maxTtlMs: 1_000 };
    const send = sender({ deadlineMs: 600_000 });
    const cloud = cloudA(unwrapped(account), { send, sendTo: send, assertion: undefined });
    let state = unwrapped(newIssue(role, { ...context, request: {} }));
    let left = 1;
    for (let batches = 0; batches < 20; batches++) {
      const next = issueSaga.next(state, 0);
      if (next === null) break;
      if ("wait" in next) throw new Error("no wait");
      const batch = batchOf(issueSaga, state, next, 0, awsCalls);
      state = batch.state;
      for (const step of batch.steps) {
        const isThrottled = batches > 0 && step.call === throttled && left-- > 0;
        const result = isThrottled
          ? failure("external", "throttled", 429)
          : await performStep(cloud, step as CloudStep);
        // The Worker of the first batch dies after its last call.
        if (batches === 0) continue;
        if (result.ok) {
          state = issueSaga.onSuccess(state, step, result.value, 0);
          continue;
        }
        const decision = issueSaga.onError(state, step, result.failure, 0, 0);
        expect(decision.kind, result.failure.message).toBe("retry");
        state = decision.state ?? state;
        break;
      }
    }
    expect(left).toBeLessThan(1);
    const keys = issued(at).flatMap((name) => at.keysOf(name).map(({ accessKeyId }) => accessKeyId));
    expect(keys).toEqual([state.kind === "user" ? state.key : ""]);
  },
);

describe("a rotation", () => {
  it("leaves one key, which works, whenever Workers die and answers are lost", PROPERTY, async () => {
    let rotated = 0;
    for (const seed of seeds) {
      const { config, account, random, runWith, run, at, opened } = world(seed);
      const made = await run.take(rotationSaga, unwrapped(beginRotation(config, account)), 0.1);
      const outcome = made.ended ? outcomeOfRotation(made.state, run.now) : null;
      if (outcome && !("problem" in outcome)) {
        rotated++;
        const after = runWith(accountOf(outcome.promote(config), {}), random);
        after.now = run.now;
        if (outcome.orphans) await after.remove(removalSaga, outcome.orphans);
        await after.remove(removalSaga, outcome.removal);
        expect(
          at.keysOf("sallyport").map(({ accessKeyId }) => accessKeyId),
          `seed ${seed}`,
        ).toEqual([outcome.keyId]);
      } else {
        const undo = undoOfRotation(made.state, run.now);
        if (undo) await run.remove(removalSaga, undo);
        const keys = at.keysOf("sallyport").map(({ accessKeyId }) => accessKeyId);
        expect(keys, `seed ${seed}`).toEqual([opened.access_key]);
      }
    }
    expect(rotated).toBeGreaterThan(seeds.length / 10);
    expect(seeds.length - rotated).toBeGreaterThan(seeds.length / 10);
  });
});

it("keeps the key that was configured while a rotation was under way", () => {
  const { config, account } = world(1);
  const begun = { ...unwrapped(beginRotation(config, account)), user: { name: "u", keys: ["K1"] }, adding: true };
  const undo = undoOfRotation({ ...begun, lost: ["K2", "K3"] }, 0, { ...config, access_key: "K2" });
  expect(undo).toMatchObject({ items: [{ id: "K3" }], search: { except: ["K1", "K2"] } });
});

it("checks a new key that is not found again, unless the deletion of its user shows it", () => {
  const missing = failure("client", "not_found", 404);
  if (missing.ok) throw new Error("no failure");
  const deletion = { call: "deleteKey", args: ["u", "k"] } as const;
  const after = (removal: ReturnType<typeof keyRemoval>, now: number) =>
    removalSaga.onError(removal, deletion, missing.failure, now, 0);
  expect(after(keyRemoval("u", "k", 1_000, 0), 2_000)).toMatchObject({
    state: { items: [{ id: "k", notBefore: 4_000 }] },
  });
  expect(after(keyRemoval("u", "k", 1_000, 0), 61_000)).toMatchObject({ state: { items: [] } });
  const user = revocationOf({ kind: "user", name: "u", key: "k" }, 1_000);
  expect(after(user, 2_000)).toMatchObject({ state: { items: [{ kind: "contents" }, { kind: "user" }] } });
});
