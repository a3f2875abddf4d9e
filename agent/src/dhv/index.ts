export type { AllowedPlugin } from "./executable.ts";
export { PLUGIN_NAME } from "./executable.ts";
export type { HostVolume, HostVolumesOptions, PluginStatus } from "./host-volume.ts";
export { HostVolumes } from "./host-volumes.ts";
export { readRecords, recordsDir } from "./records.ts";
