import { useState } from "preact/hooks";
import { api, type Schemas, wireRequest } from "../../api/client.ts";
import { Checkbox, SelectField } from "../../components/field.tsx";
import { FormDialog } from "../../components/form-dialog.tsx";

const MINUTE_NS = 60_000_000_000;
/** The deadline of a drain, in ns: 0 waits for ever, a negative one stops at once. */
const DEADLINES = [
  { value: String(60 * MINUTE_NS), label: "stop what is left after 1 hour" },
  { value: String(5 * MINUTE_NS), label: "stop what is left after 5 minutes" },
  { value: "0", label: "wait as long as it takes" },
  { value: "-1", label: "stop everything at once" },
];

export function DrainDialog({
  node,
  onClose,
  onDone,
}: {
  readonly node: Schemas["Node"];
  readonly onClose: () => void;
  readonly onDone: () => void;
}) {
  const [deadline, setDeadline] = useState(DEADLINES[0]?.value ?? "0");
  const [keepsSystemJobs, setKeepsSystemJobs] = useState(false);
  const options = {
    path: { id: node.ID },
    body: { DrainSpec: { Deadline: Number(deadline), IgnoreSystemJobs: keepsSystemJobs } },
  };
  const drain = async (): Promise<void> => {
    await api("PUT /v1/node/{id}/drain", options);
    onDone();
  };
  return (
    <FormDialog
      title={`Drain ${node.Name}`}
      verb="Drain the node"
      shape="box"
      onClose={onClose}
      perform={drain}
      request={wireRequest("PUT /v1/node/{id}/drain", options)}
    >
      <p>Nothing new is placed on the node, and your scheduler moves away what runs there.</p>
      <SelectField label="Allocations that stay" value={deadline} onChange={setDeadline} options={DEADLINES} />
      <Checkbox label="Leave system jobs running" checked={keepsSystemJobs} onChange={setKeepsSystemJobs} />
    </FormDialog>
  );
}
