/**
 * The reported orchestrator version. Upstream clients of the cluster API enable features by it: the checks of host volumes
 * on named nodes and of claims across namespaces, `NodeEligibility` events and the topic `Variable` are in it, as here.
 */
export const ORCHESTRATOR_VERSION = "2.0.5";

/** Wire versions of that release's servers. */
const SERF = { ProtocolMin: 1, ProtocolMax: 5, ProtocolCur: 2, DelegateMin: 2, DelegateMax: 5, DelegateCur: 4 };
const NAME = "sallyport.global";
const REGION = "global";
const DATACENTER = "dc1";

/** Address at which the service was reached. */
export interface Reached {
  readonly host: string;
  readonly port: number;
}

/** `host:port`, in the form by which clients find the leader among the members. */
export const leaderOf = ({ host, port }: Reached): string => `${host.includes(":") ? `[${host}]` : host}:${port}`;

/** The single server as a cluster member. */
function member({ host, port }: Reached) {
  const Tags = {
    role: "nomad",
    region: REGION,
    dc: DATACENTER,
    build: ORCHESTRATOR_VERSION,
    port: String(port),
    id: NAME,
    bootstrap: "1",
    expect: "1",
    vsn: "1",
    raft_vsn: "3",
    rpc_addr: host,
  };
  return { Name: NAME, Addr: host, Port: port, Status: "alive", Tags, ...SERF };
}

/** The single server, as the operator API shows it. */
export const serverOf = (reached: Reached) => ({
  ID: NAME,
  Name: NAME,
  Address: leaderOf(reached),
  Leader: true,
  Voter: true,
  Version: ORCHESTRATOR_VERSION,
  RaftProtocol: "3",
});

export const members = (reached: Reached) => ({
  ServerName: "sallyport",
  ServerRegion: REGION,
  ServerDC: DATACENTER,
  Members: [member(reached)],
});

/** The agent self description: this service as a server. @param index the newest index */
export const self = (reached: Reached, version: string, index: number) => ({
  config: {
    Region: REGION,
    Datacenter: DATACENTER,
    NodeName: "sallyport",
    ACL: { Enabled: true },
    Version: { Version: ORCHESTRATOR_VERSION, VersionPrerelease: "", VersionMetadata: "", Revision: "" },
    Server: { Enabled: true },
    Client: { Enabled: false },
    UI: { Enabled: false, ShowCLIHints: false },
  },
  member: member(reached),
  // Clients parse strings only.
  stats: {
    nomad: { server: "true", leader: "true", leader_addr: leaderOf(reached), bootstrap: "false", known_regions: "1" },
    raft: { applied_index: String(index), last_log_index: String(index), num_peers: "0", state: "Leader" },
    sallyport: { version },
  },
});
