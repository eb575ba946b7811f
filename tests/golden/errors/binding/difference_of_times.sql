SELECT rt - ts FROM e;
