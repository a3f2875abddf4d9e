import type { NodeFollower } from "../../contracts/change-set.ts";
import type { Journal } from "../../contracts/event-publisher.ts";
import type { Operation } from "../../contracts/node-operation.ts";
import type { Result } from "../../lib/result.ts";
import type { DataKeys } from "../../platform/crypto/data-keys.ts";
import type { IndexBackfill, IndexedRows } from "../../platform/durable/blocking/index-backfill.ts";
import type { Timed } from "../../platform/durable/blocking/timed.ts";
import { CsiAsks } from "./asks.ts";
import { ClaimSituations } from "./claim-context.ts";
import { ClaimWalk } from "./claim-controller.ts";
import { ClaimIntake } from "./claim-intake.ts";
import { CsiClaimStore } from "./claim-store.ts";
import { CsiClaims } from "./claims.ts";
import { CsiVolumes } from "./csi-volumes.ts";
import { JobAsks } from "./job-asks.ts";
import { CSI_OPERATION, CsiOperations } from "./operations.ts";
import { Leftovers } from "./orphans.ts";
import { CSI_PLUGIN, CsiPlugins } from "./plugins.ts";
import { CsiSecrets } from "./secrets.ts";
import { CSI_VOLUME, CsiVolumeStore } from "./volume-store.ts";
import { CsiWork } from "./work.ts";

interface Host {
  readonly sql: SqlStorage;
  readonly journal: Journal<IndexBackfill>;
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
  readonly work: CsiWork;
  readonly claims: CsiClaims;
  readonly #walk: ClaimWalk;
  readonly #leftovers: Leftovers;
  /** Records claims for reported allocations and jobs. */
  readonly intake: ClaimIntake;
  readonly volumes: CsiVolumes;
  readonly asks: CsiAsks;

  constructor({ sql, journal, keys, holdKeys, promise, start }: Host) {
    this.plugins = new CsiPlugins(sql);
    this.claimStore = new CsiClaimStore(sql);
    this.store = new CsiVolumeStore(sql, this.plugins, this.claimStore);
    this.operations = new CsiOperations({ sql, enlist: promise });
    const secrets = new CsiSecrets({ store: this.store, keys, holdKeys });
    const parts = { sql, journal, store: this.store, plugins: this.plugins, operations: this.operations, secrets };
    this.work = new CsiWork({ ...parts, start });
    const situations = new ClaimSituations({ ...parts, claims: this.claimStore });
    this.#leftovers = new Leftovers({ ...parts, work: this.work });
    const forClaims = {
      ...parts,
      ...{ claims: this.claimStore, leftovers: this.#leftovers, situations, work: this.work },
    };
    this.#walk = new ClaimWalk(forClaims);
    this.claims = new CsiClaims({ ...forClaims, walk: this.#walk });
    this.intake = new ClaimIntake({
      ...{ sql, claims: this.claimStore, secrets },
      asks: new JobAsks(sql, (mount) => secrets.sealForClaim(mount)),
      walk: () => this.#walk.soon(),
    });
    this.volumes = new CsiVolumes({ ...parts, claims: this.claims, work: this.work });
    this.asks = new CsiAsks({ ...parts, work: this.work });
  }

  /** Order matters: claims read the updated plugins and operations. */
  get followers(): readonly NodeFollower[] {
    return [this.plugins, this.work, this.claims, this.#leftovers];
  }

  get stamped(): Readonly<Record<string, IndexedRows>> {
    return { [CSI_PLUGIN]: this.plugins, [CSI_VOLUME]: this.store, [CSI_OPERATION]: this.operations };
  }

  get timed(): readonly Timed[] {
    return [this.work, this.#walk, this.#leftovers];
  }
}
