import type { CsiPlugin, CsiPluginsApi, InstancePage, PluginPage, Role } from "../../../contracts/csi-volumes.ts";
import type { TableIndexes } from "../../../platform/durable/blocking/table-indexes.ts";
import { CSI_PLUGIN, type CsiPlugins } from "../plugins.ts";
import type { CsiVolumeStore } from "../volume-store.ts";

/** RPC methods of `ClusterRegistry` about CSI plugins. */
export class CsiPluginMethods implements CsiPluginsApi {
  readonly #plugins: CsiPlugins;
  readonly #store: CsiVolumeStore;
  readonly #indexes: TableIndexes;

  constructor(plugins: CsiPlugins, store: CsiVolumeStore, indexes: TableIndexes) {
    this.#plugins = plugins;
    this.#store = store;
    this.#indexes = indexes;
  }

  csiPlugins(prefix: string, from: string): PluginPage & { readonly index: number } {
    return { ...this.#plugins.page(prefix, from), index: this.#indexes.of(CSI_PLUGIN) };
  }

  csiPlugin(id: string): { readonly plugin: CsiPlugin | null; readonly index: number } {
    return { plugin: this.#plugins.find(id), index: this.#indexes.of(CSI_PLUGIN) };
  }

  csiPluginInstances(id: string, role: Role, from: string): InstancePage {
    return this.#plugins.instances(id, role, from);
  }

  hasCsiVolumesOf(pluginId: string): boolean {
    return this.#plugins.find(pluginId) !== null || this.#store.hasPlugin(pluginId);
  }
}
