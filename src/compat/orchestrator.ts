/**
 * What upstream's clients of areas C and D take this service for. They compare versions to know what they may ask for: host
 * volumes made by a request, drains with metadata and events with `Deleted` are there from this one on, and so are they here.
 */
export const ORCHESTRATOR_VERSION = "1.11.2";

/** Wire versions that the same release tells of its servers. */
const SERF = { ProtocolMin: 1, ProtocolMax: 5, ProtocolCur: 2, DelegateMin: 2, DelegateMax: 5, DelegateCur: 4 };
const NAME = "sallyport.global";
const REGION = "global";
const DATACENTER = "dc1";

/** Where the service was reached. */
export interface Reached {
  readonly host: string;
  readonly port: number;
}

/** `host:port`, as clients join the two to find the leader among the members. */
export const leaderOf = ({ host, port }: Reached): string => `${host.includes(":") ? `[${host}]` : host}:${port}`;

/** The one server, as a member of its own cluster. */
export function member({ host, port }: Reached) {
  const Tags = {
    ...{ role: "nomad", region: REGION, dc: DATACENTER, build: ORCHESTRATOR_VERSION, port: String(port), id: NAME },
    ...{ bootstrap: "1", expect: "1", vsn: "1", raft_vsn: "3", rpc_addr: host },
  };
  return { Name: NAME, Addr: host, Port: port, Status: "alive", Tags, ...SERF };
}

export const members = (reached: Reached) => ({
  ServerName: "sallyport",
  ServerRegion: REGION,
  ServerDC: DATACENTER,
  Members: [member(reached)],
});

/** The agent that was asked: this service as a server. @param index the newest there is */
export const self = (reached: Reached, version: string, index: number) => ({
  config: {
    ...{ Region: REGION, Datacenter: DATACENTER, NodeName: "sallyport", ACL: { Enabled: true } },
    Version: { Version: ORCHESTRATOR_VERSION, VersionPrerelease: "", VersionMetadata: "", Revision: "" },
    ...{ Server: { Enabled: true }, Client: { Enabled: false }, UI: { Enabled: false, ShowCLIHints: false } },
  },
  member: member(reached),
  // Texts only: that is how clients read them.
  stats: {
    nomad: { server: "true", leader: "true", leader_addr: leaderOf(reached), bootstrap: "false", known_regions: "1" },
    raft: { applied_index: String(index), last_log_index: String(index), num_peers: "0", state: "Leader" },
    sallyport: { version },
  },
});
