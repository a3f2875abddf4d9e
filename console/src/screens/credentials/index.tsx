import { place } from "../../app/router.ts";
import { EnginePage } from "./engine.tsx";
import { Engines } from "./engines.tsx";
import { RolePage } from "./role.tsx";

/**
 * `/ui/credentials`, `/ui/credentials/MOUNT` and `/ui/credentials/MOUNT/ROLE`. A mount is one segment, whatever slashes
 * it has.
 */
export default function CredentialsScreen() {
  const [mount, role] = place.value.segments;
  if (mount && role) return <RolePage key={`${mount} ${role}`} mount={mount} stored={role} />;
  if (mount) return <EnginePage key={mount} mount={mount} />;
  return <Engines />;
}
