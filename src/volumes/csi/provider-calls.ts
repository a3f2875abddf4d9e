import type { CsiMethod } from "@sallyport/agent-protocol";
import type {
  Name,
  PageRequest,
  SnapshotRequest,
  StartedOperation,
  StartedSnapshot,
  Texts,
} from "../../contracts/csi-volumes.ts";
import { ok, type Result, refuse } from "../../lib/result.ts";
import { refuseIfSealed } from "../../platform/crypto/refuse-if-sealed.ts";
import type { CsiOperations } from "./csi-operations.ts";
import type { CsiDispatcher } from "./dispatcher.ts";
import type { CsiPlugins } from "./plugins.ts";
import type { CsiSecrets } from "./secrets.ts";
import type { CsiVolumeStore } from "./volume-store.ts";
import { remoteId } from "./volume-views.ts";

const quoted = JSON.stringify;
const noSuchPlugin = (pluginId: string): string => `no such plugin ${quoted(pluginId)}`;
/** For operations on a plugin rather than a volume. */
const NO_VOLUME: Name = { namespace: "", id: "" };

/** Plugin operations without a row in the registry: listing the provider's volumes, and snapshots. */
export class ProviderCalls {
  constructor(
    private readonly store: CsiVolumeStore,
    private readonly plugins: CsiPlugins,
    private readonly operations: CsiOperations,
    private readonly secrets: CsiSecrets,
    private readonly dispatcher: CsiDispatcher,
  ) {}

  /** Lists one page of the provider's volumes. */
  listVolumes(page: PageRequest): Result<StartedOperation> {
    return this.#operate("csi.controller.list", page.pluginId, NO_VOLUME, page, {}, crypto.randomUUID());
  }

  listSnapshots(page: PageRequest, secrets: Texts): Result<StartedOperation> {
    return this.#operate("csi.controller.snapshotList", page.pluginId, NO_VOLUME, page, secrets, crypto.randomUUID());
  }

  deleteSnapshot(pluginId: string, snapshotId: string, secrets: Texts, digest: string): Result<StartedOperation> {
    const params = { pluginId, snapshotId };
    return this.#operate("csi.controller.snapshotDelete", pluginId, NO_VOLUME, params, secrets, digest);
  }

  createSnapshot(request: SnapshotRequest, digest: string): Result<StartedSnapshot> {
    return refuseIfSealed((): Result<StartedSnapshot> => {
      const { source, parameters } = request;
      const volume = this.store.find(source);
      if (!volume) return refuse("missing", `no such volume ${quoted(source.id)}`);
      const pluginId = request.pluginId || volume.pluginId;
      // Another plugin must not receive the volume's secrets.
      if (pluginId !== volume.pluginId)
        return this.plugins.find(pluginId)
          ? refuse("invalid", `PluginID: must be the plugin of volume ${quoted(source.id)}`)
          : refuse("missing", noSuchPlugin(pluginId));
      // Snapshot creation is idempotent by name, so a retry creates no second snapshot.
      const name = request.name || `snapshot-${crypto.randomUUID()}`;
      const params = { pluginId, externalId: remoteId(volume), name, parameters };
      const shown = { ...this.secrets.of(volume), ...request.secrets };
      const asked = this.#operate("csi.controller.snapshotCreate", pluginId, source, params, shown, digest);
      if (!asked.ok) return asked;
      const kept = this.operations.find(asked.value.operation)?.params["name"];
      return ok({ ...asked.value, pluginId, name: typeof kept === "string" ? kept : name });
    });
  }

  /** @param digest identifies the request; a retry with the same digest returns the running operation */
  #operate(
    method: CsiMethod,
    pluginId: string,
    { namespace, id }: Name,
    params: object,
    secrets: Texts,
    digest: string,
  ): Result<StartedOperation> {
    return refuseIfSealed((): Result<StartedOperation> => {
      const again = this.operations.begunBy(digest);
      if (again) return ok({ operation: again.id });
      if (!this.plugins.find(pluginId)) return refuse("missing", noSuchPlugin(pluginId));
      const begun = this.dispatcher.beginAtController(
        {
          pluginId,
          namespace,
          volumeId: id,
          locks: false,
          method,
          request: digest,
          params: { ...params },
          change: null,
        },
        this.store.find({ namespace, id })?.topologies,
        secrets,
      );
      return begun.ok ? ok({ operation: begun.value }) : begun;
    });
  }
}
