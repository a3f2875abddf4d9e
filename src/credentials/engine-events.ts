import type { ServiceEmitter } from "../publishing/service-events.ts";
import { plainName } from "./engines/description.ts";

type Details = Readonly<Record<string, unknown>>;

/** Events about the leases, roles and configuration of one engine. Methods run inside the object's transaction. */
export class EngineEvents {
  constructor(private readonly events: ServiceEmitter) {}

  /** @param id relative to the mount; it ends with the lease's own part, after the path that issued it */
  lease(type: string, id: string, details: Details = {}): void {
    const path = id.slice(0, id.lastIndexOf("/"));
    this.events.emit({ topic: "Lease", type, key: id, path, payload: { Path: id, ...details } });
  }

  /** @param path of the role below the mount */
  role(type: string, path: string, details: Details = {}): void {
    const payload = { Role: plainName(path), ...details };
    this.events.emit({ topic: "Engine", type, key: path, path, payload });
  }

  /** A credential was issued, or not; its lease has an event of its own. @param id of the lease, after the path of the request */
  credentials(type: "CredentialsIssued" | "CredentialsFailed", role: string, id: string, details: Details = {}): void {
    const path = id.slice(0, id.lastIndexOf("/"));
    const payload = { Role: plainName(role), ...details };
    this.events.emit({ topic: "Engine", type, key: path, path, payload });
  }

  /** @param at path of the configuration below the mount, with its slash */
  config(type: string, at: string, details: Details = {}): void {
    this.events.emit({ topic: "Engine", type, key: "", path: at.slice(1), payload: details });
  }
}

export const timeOf = (ms: number): string => new Date(ms).toISOString();
