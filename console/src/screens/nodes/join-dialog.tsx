import { useState } from "preact/hooks";
import { type Api, api, wireRequest } from "../../api/client.ts";
import { Button } from "../../components/button.tsx";
import { Code } from "../../components/code.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { SelectField, TextField } from "../../components/field.tsx";
import { FormDialog } from "../../components/form-dialog.tsx";
import { Countdown } from "../../components/moments.tsx";
import { ShownOnce } from "../../components/shown-once.tsx";
import { useLive } from "../../lib/live.ts";

type Made = Api["POST /v1/agent/tokens"]["answer"];

const CONFIG_DIR = "/etc/sallyport-agent";

/** Stores token and configuration, and starts the agent of a machine on which it is installed. */
function joinLine({ Token, Name, NodePool }: Made): string {
  const config = {
    service: location.origin,
    ...(Name && { name: Name }),
    ...(NodePool !== "default" && { pool: NodePool }),
    joinTokenFile: `${CONFIG_DIR}/join-token`,
  };
  return [
    `sudo install -d ${CONFIG_DIR}`,
    `echo '${Token}' | sudo install -m 600 -o sallyport-agent /dev/stdin ${CONFIG_DIR}/join-token`,
    `echo '${JSON.stringify(config)}' | sudo install -m 644 /dev/stdin ${CONFIG_DIR}/agent.json`,
    "sudo systemctl enable --now sallyport-agent",
  ].join(" && ");
}

/** Makes a join token, shows the one line that uses it, and waits for the node. */
export function JoinDialog({ onClose }: { readonly onClose: () => void }) {
  const [name, setName] = useState("");
  const [pool, setPool] = useState("default");
  const [made, setMade] = useState<Made | null>(null);
  const pools = useLive(["pools"], (options) => api("GET /v1/node/pools", options), { everyMs: 0 });
  const body = { ...(name && { Name: name }), ...(pool !== "default" && { NodePool: pool }) };
  const create = async (): Promise<void> => setMade(await api("POST /v1/agent/tokens", { body }));
  const choices = (pools.value ?? []).map(({ Name }) => Name).filter((each) => each !== "all");
  if (made)
    return (
      <Dialog
        title="The join token is created"
        shape="wide"
        onClose={onClose}
        footer={
          <Button kind="primary" onClick={onClose}>
            Close
          </Button>
        }
      >
        <Joining made={made} />
      </Dialog>
    );
  return (
    <FormDialog
      title="Join a node"
      verb="Create join token"
      shape="wide"
      onClose={onClose}
      perform={create}
      isShownAtField={(problems) => problems["Name"] !== undefined}
      request={wireRequest("POST /v1/agent/tokens", { body })}
    >
      {({ problems }) => (
        <>
          <TextField
            label="Name of the node"
            value={name}
            onChange={setName}
            autofocus
            hint="Only a node of this name can use the token. Left empty, the host's name is taken."
            error={problems["Name"]}
          />
          <SelectField
            label="Node pool"
            value={pool}
            onChange={setPool}
            options={[...new Set(["default", ...choices])].map((value) => ({ value, label: value }))}
          />
        </>
      )}
    </FormDialog>
  );
}

function Joining({ made }: { readonly made: Made }) {
  const token = useLive(
    ["join-token", made.AccessorID],
    async (options) => {
      const all = await api("GET /v1/agent/tokens", { query: { per_page: 1_000 }, ...options });
      return all.find(({ AccessorID }) => AccessorID === made.AccessorID) ?? null;
    },
    { everyMs: 2_000 },
  );
  const node = token.value?.NodeID;
  const line = <Code text={joinLine(made)} label="the line that joins the node" wrap />;
  return (
    <div class="form">
      <p>
        On a machine with the agent installed, run this line. The token is shown here only, joins one node, and ends in{" "}
        <Countdown to={made.ExpirationTime} />.
      </p>
      {node ? line : <ShownOnce what="the join token">{line}</ShownOnce>}
      <p class="muted">
        How to install the agent: <code>docs/guides/agent.md</code> of the repository.
      </p>
      <p role="status">
        {node ? (
          <>
            The node has joined: <a href={`/ui/nodes/node/${node}`}>{made.Name || node}</a>.
          </>
        ) : (
          "Waiting for the node …"
        )}
      </p>
    </div>
  );
}
