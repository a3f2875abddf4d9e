import { place } from "../../app/router.ts";
import { CsiVolumePage } from "./csi-volume.tsx";
import { HostVolumePage } from "./host-volume.tsx";
import { StorageLists } from "./lists.tsx";
import { PluginPage } from "./plugin.tsx";

export default function StorageScreen() {
  const [kind, id] = place.value.segments;
  if (id !== undefined) {
    if (kind === "host") return <HostVolumePage key={id} id={id} />;
    if (kind === "csi") return <CsiVolumePage key={id} id={id} />;
    if (kind === "plugin") return <PluginPage key={id} id={id} />;
  }
  return <StorageLists />;
}
