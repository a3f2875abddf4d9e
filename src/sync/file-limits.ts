/** Beyond any credentials there are; nothing larger is read into memory. */
export const MAX_FILE_BYTES = 1_048_576;

/** What a bucket takes for a key. */
export const MAX_KEY_BYTES = 1024;
