SELECT id.x FROM e;
