import { createArgumentValidator } from '@nightshift/agent-core';

/** Shared by the process because it caches compiled schemas. */
export const validateArguments = createArgumentValidator();
