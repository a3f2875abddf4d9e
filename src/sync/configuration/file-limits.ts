/** The largest credentials file; a larger object is refused unread. */
export const MAX_FILE_BYTES = 1_048_576;

/** The longest key of an R2 object (Cloudflare R2, "Limits"). */
export const MAX_KEY_BYTES = 1024;
