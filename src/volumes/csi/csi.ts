import type { IndexBackfill, IndexedRows } from "../../platform/durable/blocking/index-backfill.ts";
import type { Timed } from "../../platform/durable/blocking/timed.ts";
import type { Outbox } from "../../platform/durable/outbox.ts";
import type { NodeFollower } from "../../publishing/change-set.ts";
import type { EventPublisher } from "../../publishing/event-publisher.ts";
import type { RegisteredKeys } from "../registered-keys.ts";
import { ClaimCalls } from "./claim-calls.ts";
import { ClaimContexts } from "./claim-context.ts";
import { ClaimController } from "./claim-controller.ts";
import { ClaimEffects } from "./claim-effects.ts";
import { ClaimIntake } from "./claim-intake.ts";
import { CsiClaimStore } from "./claim-store.ts";
import { CsiClaims } from "./claims.ts";
import { CSI_OPERATION, CsiOperations } from "./csi-operations.ts";
import { CsiVolumes } from "./csi-volumes.ts";
import { CsiDispatcher } from "./dispatcher.ts";
import { JobVolumes } from "./job-volumes.ts";
import { Orphans } from "./orphans.ts";
import { CSI_PLUGIN, CsiPlugins } from "./plugins.ts";
import { ProviderCalls } from "./provider-calls.ts";
import { CsiSecrets } from "./secrets.ts";
import { CSI_VOLUME, CsiVolumeStore } from "./volume-store.ts";

/** Wires the components of CSI volumes in the cluster registry. */
export class Csi {
  readonly plugins: CsiPlugins;
  readonly claimStore: CsiClaimStore;
  readonly store: CsiVolumeStore;
  readonly operations: CsiOperations;
  readonly dispatcher: CsiDispatcher;
  readonly claims: CsiClaims;
  readonly #controller: ClaimController;
  readonly #orphans: Orphans;
  /** Records claims for reported allocations and jobs. */
  readonly intake: ClaimIntake;
  readonly volumes: CsiVolumes;
  readonly calls: ProviderCalls;
  readonly #jobVolumes: JobVolumes;

  constructor(
    sql: SqlStorage,
    env: Env,
    publisher: EventPublisher<IndexBackfill>,
    keys: RegisteredKeys,
    outbox: Outbox,
  ) {
    this.plugins = new CsiPlugins(sql);
    this.claimStore = new CsiClaimStore(sql);
    this.store = new CsiVolumeStore(sql, this.plugins, this.claimStore);
    this.operations = new CsiOperations(sql, outbox);
    const secrets = new CsiSecrets(this.store, keys);
    const { store, plugins, operations, claimStore } = this;
    this.dispatcher = new CsiDispatcher(env, publisher, plugins, operations, secrets);
    const { dispatcher } = this;
    const contexts = new ClaimContexts(sql, claimStore, plugins, operations);
    this.#orphans = new Orphans(sql, publisher, plugins, dispatcher);
    const calls = new ClaimCalls(claimStore, plugins, secrets, dispatcher, this.#orphans);
    this.#controller = new ClaimController(publisher, claimStore, contexts, store, calls);
    const controller = this.#controller;
    this.claims = new CsiClaims(publisher, claimStore, contexts, store, controller);
    this.#jobVolumes = new JobVolumes(sql, secrets);
    this.intake = new ClaimIntake(sql, claimStore, this.#jobVolumes, secrets, controller);
    this.volumes = new CsiVolumes({
      publisher,
      store,
      plugins,
      claims: this.claims,
      operations,
      secrets,
      dispatcher,
    });
    dispatcher.serve(this.volumes, new ClaimEffects(claimStore, store, this.#orphans, secrets, controller));
    this.calls = new ProviderCalls(store, plugins, operations, secrets, dispatcher);
  }

  /** Deletes the requests of ended jobs and past operations of a namespace; inside the transaction that deletes it. */
  forgetNamespace(namespace: string): void {
    this.#jobVolumes.forgetNamespace(namespace);
    this.operations.forgetNamespace(namespace);
  }

  /** Order matters: claims read the updated plugins and operations. */
  get followers(): readonly NodeFollower[] {
    return [this.plugins, this.dispatcher, this.claims, this.#orphans];
  }

  get indexedRows(): Readonly<Record<string, IndexedRows>> {
    return { [CSI_PLUGIN]: this.plugins, [CSI_VOLUME]: this.store, [CSI_OPERATION]: this.operations };
  }

  get timed(): readonly Timed[] {
    return [this.dispatcher, this.#controller, this.#orphans];
  }
}
