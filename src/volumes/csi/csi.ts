import type { NodeFollower } from "../../contracts/change-set.ts";
import type { EventPublisher } from "../../contracts/event-publisher.ts";
import type { Operation } from "../../contracts/node-operation.ts";
import type { Result } from "../../lib/result.ts";
import type { DataKeys } from "../../platform/crypto/data-keys.ts";
import type { IndexBackfill, IndexedRows } from "../../platform/durable/blocking/index-backfill.ts";
import type { Timed } from "../../platform/durable/blocking/timed.ts";
import { ClaimContexts } from "./claim-context.ts";
import { ClaimController } from "./claim-controller.ts";
import { ClaimIntake } from "./claim-intake.ts";
import { CsiClaimStore } from "./claim-store.ts";
import { CsiClaims } from "./claims.ts";
import { CsiVolumes } from "./csi-volumes.ts";
import { CsiDispatcher } from "./dispatcher.ts";
import { JobVolumes } from "./job-volumes.ts";
import { CSI_OPERATION, CsiOperations } from "./operations.ts";
import { Orphans } from "./orphans.ts";
import { CSI_PLUGIN, CsiPlugins } from "./plugins.ts";
import { ProviderCalls } from "./provider-calls.ts";
import { CsiSecrets } from "./secrets.ts";
import { CSI_VOLUME, CsiVolumeStore } from "./volume-store.ts";

interface Dependencies {
  readonly sql: SqlStorage;
  readonly publisher: EventPublisher<IndexBackfill>;
  readonly keys: () => DataKeys;
  /** Records that this object holds data keys; inside a transaction. */
  readonly holdKeys: () => void;
  /** Adds an operation to the outbox; inside a transaction. */
  readonly promise: (operation: string) => void;
  readonly start: (nodeId: string, operation: Operation) => Promise<Result<null>>;
}

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
  readonly asks: ProviderCalls;

  constructor({ sql, publisher, keys, holdKeys, promise, start }: Dependencies) {
    this.plugins = new CsiPlugins(sql);
    this.claimStore = new CsiClaimStore(sql);
    this.store = new CsiVolumeStore(sql, this.plugins, this.claimStore);
    this.operations = new CsiOperations({ sql, enqueue: promise });
    const secrets = new CsiSecrets({ store: this.store, keys, holdKeys });
    const parts = { sql, publisher, store: this.store, plugins: this.plugins, operations: this.operations, secrets };
    this.dispatcher = new CsiDispatcher({ ...parts, start });
    const contexts = new ClaimContexts({ ...parts, claims: this.claimStore });
    this.#orphans = new Orphans({ ...parts, dispatcher: this.dispatcher });
    const forClaims = {
      ...parts,
      ...{ claims: this.claimStore, orphans: this.#orphans, contexts, dispatcher: this.dispatcher },
    };
    this.#controller = new ClaimController(forClaims);
    this.claims = new CsiClaims({ ...forClaims, controller: this.#controller });
    this.intake = new ClaimIntake({
      ...{ sql, claims: this.claimStore, secrets },
      jobVolumes: new JobVolumes(sql, (mount) => secrets.sealForClaim(mount)),
      wakeController: () => this.#controller.soon(),
    });
    this.volumes = new CsiVolumes({ ...parts, claims: this.claims, dispatcher: this.dispatcher });
    this.asks = new ProviderCalls({ ...parts, dispatcher: this.dispatcher });
  }

  /** Order matters: claims read the updated plugins and operations. */
  get followers(): readonly NodeFollower[] {
    return [this.plugins, this.dispatcher, this.claims, this.#orphans];
  }

  get stamped(): Readonly<Record<string, IndexedRows>> {
    return { [CSI_PLUGIN]: this.plugins, [CSI_VOLUME]: this.store, [CSI_OPERATION]: this.operations };
  }

  get timed(): readonly Timed[] {
    return [this.dispatcher, this.#controller, this.#orphans];
  }
}
