import { LinkButton } from "../../components/button.tsx";
import { Dialog } from "../../components/dialog.tsx";
import { Empty, Loaded } from "../../components/states.tsx";
import { useResource } from "../../lib/resource.ts";
import { createHref } from "../sync/addresses.ts";
import { readDestinations } from "../sync/reads.ts";
import { RuleForm } from "../sync/rule-form.tsx";
import { SyncSecretForm } from "../sync/sync-secret.tsx";

interface SyncToProps {
  readonly mount: string;
  /** A secret; a folder is empty or ends with a slash. */
  readonly path: string;
  readonly onClose: () => void;
  readonly onDone: () => void;
}

/** Associates a secret with a destination, or a folder by a rule; says before what that would do. */
export function SyncTo({ mount, path, onClose, onDone }: SyncToProps) {
  const found = useResource(["all-destinations"], readDestinations);
  const destinations = found.value ?? [];
  const ends = {
    onClose,
    onDone: () => {
      onDone();
      onClose();
    },
  };
  if (destinations.length > 0)
    return /^$|\/$/.test(path) ? (
      <RuleForm destinations={destinations} rule={null} of={{ mount, folder: path }} {...ends} />
    ) : (
      <SyncSecretForm destinations={destinations} of={{ mount, secret: path }} {...ends} />
    );
  return (
    <Dialog title={`Sync ${path || mount}`} onClose={onClose} shape="side">
      <Loaded resource={found} label="The destinations">
        {() => (
          <Empty title="No destination yet" actions={<LinkButton href={createHref()}>Create destination</LinkButton>}>
            Create one first: it holds the credentials of the place where secrets go.
          </Empty>
        )}
      </Loaded>
    </Dialog>
  );
}
