import { createArgumentValidator } from '@nightshift/agent-core';

/** One validator for the process: it keeps compiled schemas. */
export const validateArguments = createArgumentValidator();
