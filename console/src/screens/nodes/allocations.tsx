import type { Schemas } from "../../api/client.ts";
import { allocationHref, jobHref } from "../../app/cluster-links.ts";
import { Empty } from "../../components/states.tsx";
import { DataTable } from "../../components/table.tsx";
import { AllocationStatus } from "./states.tsx";

/** Allocations of a node or a job. */
export const Allocations = ({
  rows,
  none = "No allocation is reported",
}: {
  readonly rows: readonly Schemas["AllocationStub"][];
  readonly none?: string;
}) => (
  <DataTable
    label="Allocations"
    rows={rows}
    keyOf={(row) => row.ID}
    hrefOf={(row) => allocationHref(row.ID, row.Namespace)}
    columns={[
      { key: "name", label: "Allocation", render: (row) => row.Name || row.ID },
      {
        key: "status",
        label: "Status",
        width: "130px",
        render: (row) => <AllocationStatus status={row.ClientStatus} />,
      },
      {
        key: "job",
        label: "Job",
        isMinor: true,
        render: (row) => <a href={jobHref(row.JobID, row.Namespace)}>{row.JobID}</a>,
      },
    ]}
    empty={<Empty title={none}>Allocations are reported by your scheduler.</Empty>}
  />
);
