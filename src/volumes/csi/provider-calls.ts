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
import { controllersFor, targetOf } from "./controllers.ts";
import type { CsiOperations } from "./csi-operations.ts";
import type { CsiDispatcher } from "./dispatcher.ts";
import { NEEDS } from "./methods.ts";
import type { CsiPlugins } from "./plugins.ts";
import type { CsiSecrets } from "./secrets.ts";
import type { CsiVolumeStore } from "./volume-store.ts";
import { remoteId } from "./volume-views.ts";

interface ProviderCallsDependencies {
  readonly store: CsiVolumeStore;
  readonly plugins: CsiPlugins;
  readonly operations: CsiOperations;
  readonly secrets: CsiSecrets;
  readonly dispatcher: CsiDispatcher;
}

const quoted = JSON.stringify;
const noSuchPlugin = (pluginId: string): string => `no such plugin ${quoted(pluginId)}`;
/** For operations on a plugin rather than a volume. */
const NO_VOLUME: Name = { namespace: "", id: "" };

/** Plugin operations without a row in the registry: listing the provider's volumes, and snapshots. */
export class ProviderCalls {
  constructor(private readonly dependencies: ProviderCallsDependencies) {}

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
      const { store, plugins, secrets, operations } = this.dependencies;
      const { source, parameters } = request;
      const volume = store.find(source);
      if (!volume) return refuse("missing", `no such volume ${quoted(source.id)}`);
      const pluginId = request.pluginId || volume.pluginId;
      // Another plugin must not receive the volume's secrets.
      if (pluginId !== volume.pluginId)
        return plugins.find(pluginId)
          ? refuse("invalid", `PluginID: must be the plugin of volume ${quoted(source.id)}`)
          : refuse("missing", noSuchPlugin(pluginId));
      // Snapshot creation is idempotent by name, so a retry creates no second snapshot.
      const name = request.name || `snapshot-${crypto.randomUUID()}`;
      const params = { pluginId, externalId: remoteId(volume), name, parameters };
      const shown = { ...secrets.of(volume), ...request.secrets };
      const asked = this.#operate("csi.controller.snapshotCreate", pluginId, source, params, shown, digest);
      if (!asked.ok) return asked;
      const kept = operations.find(asked.value.operation)?.params["name"];
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
      const { plugins, operations, dispatcher } = this.dependencies;
      const again = operations.begunBy(digest);
      if (again) return ok({ operation: again.id });
      if (!plugins.find(pluginId)) return refuse("missing", noSuchPlugin(pluginId));
      const target = targetOf({}, this.dependencies.store.find({ namespace, id })?.topologies);
      const able = controllersFor(plugins, pluginId, NEEDS[method], target);
      if (!able.ok) return able;
      const begun = dispatcher.begin(
        {
          pluginId,
          namespace,
          volumeId: id,
          nodeId: able.value[0],
          locks: false,
          method,
          request: digest,
          params: { ...params },
          change: null,
        },
        secrets,
      );
      return begun.ok ? ok({ operation: begun.value }) : begun;
    });
  }
}
