import type { EngineRole } from "./reads.ts";

/** Rights of a role's principals. */
export function Grants({ role }: { readonly role: EngineRole }) {
  const { cloud_roles: roles, cloud_groups: groups } = role;
  return (
    <>
      {!roles?.length && !groups?.length && !role.application_object_id && (
        <p class="muted">Nothing yet: the role has no assignments and no groups.</p>
      )}
      <ul class="credentials-grants">
        {roles?.map(({ role_name, role_id, scope }) => (
          <li key={`${role_id} ${scope}`}>
            <strong>{role_name || role_id}</strong>
            <code>{scope}</code>
          </li>
        ))}
        {groups?.map(({ group_name, object_id }) => (
          <li key={object_id}>
            <strong>{group_name || object_id}</strong>
            <span class="muted">member of the group</span>
          </li>
        ))}
        {role.application_object_id && (
          <li>
            <strong>Existing application</strong>
            <code>{role.application_object_id}</code>
          </li>
        )}
      </ul>
    </>
  );
}
