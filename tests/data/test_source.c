#include "data/files.h"
#include "tests/cases.h"
#include <stdlib.h>
#include <string.h>

CASE_WITH(digits_need_no_option, folder_make, folder_remove)
{
    assert_int_equal(open_spec("digits"), TERN_OK);
    assert_int_equal(data.train.count, 6000);
    assert_int_equal(data.test.count, 2000);
    assert_int_equal(data.train.width, 16);
    assert_int_equal(data.train.class_count, 10);
    assert_int_equal(open_spec("digits:train=10,test=5,size=28,seed=3"), TERN_OK);
    assert_int_equal(data.train.count, 10);
    assert_int_equal(data.test.count, 5);
    assert_int_equal(data.test.feature_count, 784);
}

// The target is one of the readings, and those that are left are the others, in their order.
CASE_WITH(a_reading_of_sensors_can_be_the_target, folder_make, folder_remove)
{
    float readings[24];
    uint16_t state_of_machine[1];
    assert_int_equal(open_spec("sensors:train=30,test=10,devices=7"), TERN_OK);
    const struct tern_view whole = tern_view_all(&data.train);
    tern_view_gather(&whole, NULL, 11, 1, readings, state_of_machine);
    assert_int_equal(open_spec("sensors:train=30,test=10,devices=7,target=5"), TERN_OK);
    assert_int_equal(data.train.feature_count, 23);
    assert_true(data.train.targets[11] == readings[5]);
    assert_memory_equal(data.train.values + (size_t)11 * 23, readings, 5 * sizeof *readings);
    assert_memory_equal(data.train.values + (size_t)11 * 23 + 5, readings + 6,
                        18 * sizeof *readings);
    expect_refused("sensors:target=24", TERN_ERR_CONFIG, "target=24");
    expect_refused("sensors:target=1,anomalies=0.1", TERN_ERR_CONFIG, "not both");
}

CASE_WITH(sensors_have_the_faults_that_are_asked_for, folder_make, folder_remove)
{
    uint32_t faults = 0;
    assert_int_equal(open_spec("sensors:train=50,test=1000,anomalies=0.2"), TERN_OK);
    assert_int_equal(data.test.class_count, 2);
    for (uint32_t i = 0; i < data.train.count; i++) {
        assert_int_equal(data.train.labels[i], 0);
    }
    for (uint32_t i = 0; i < data.test.count; i++) {
        faults += data.test.labels[i] == 1;
    }
    assert_in_range(faults, 150, 250); // the draws are the same everywhere
}

CASE_WITH(wrong_specs_are_refused, folder_make, folder_remove)
{
    expect_refused("", TERN_ERR_CONFIG,
                   "known: digits, sensors, audio, idx, cifar10, csv, npy, npz");
    expect_refused("mnist:@", TERN_ERR_CONFIG, "no data of the kind 'mnist'");
    expect_refused("digits:@", TERN_ERR_CONFIG, "takes options only");
    expect_refused("idx", TERN_ERR_CONFIG, "no file or folder");
    expect_refused("idx,mean=0.286,std=0.353", TERN_ERR_CONFIG,
                   "data 'idx,mean=0.286,std=0.353': names no file or folder: write idx:PATH,..., "
                   "or set data.dir");
    expect_refused("idx", TERN_ERR_CONFIG, "dataset-fashion-mnist");
    expect_refused("digits,train=9", TERN_ERR_CONFIG, "takes options only, no file: digits:");
    expect_refused("csv:label=x", TERN_ERR_CONFIG, "no file or folder");
    expect_refused("digits:train", TERN_ERR_CONFIG, "takes options only");
    expect_refused("digits:train=5,test", TERN_ERR_CONFIG, "'test' is not key=value");
    expect_refused("digits:trian=5", TERN_ERR_CONFIG, "no option 'trian'; known: train,");
    expect_refused("digits:train=5,size=16,train=6", TERN_ERR_CONFIG, "'train' is given twice");
    expect_refused("digits:train=0", TERN_ERR_CONFIG, "train=0 is not a whole number from 1");
    expect_refused("digits:train=5x", TERN_ERR_CONFIG, "train=5x");
    expect_refused("digits:seed=99999999999999999999", TERN_ERR_CONFIG, "seed=");
    expect_refused("digits:size=15", TERN_ERR_CONFIG, "from 16 to 64");
    expect_refused("digits:mean=2", TERN_ERR_CONFIG, "mean=2 is not a number from 0 to 1");
    expect_refused("csv:@/t.csv,test=1", TERN_ERR_CONFIG, "test=1");
    char text[TERN_DATA_SPEC_MAX + 8];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    expect_refused(text, TERN_ERR_CONFIG, "longer than 1023 bytes");
    expect_refused("digits:a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1,j=1,k=1,l=1,m=1,n=1,o=1,p=1,q=1",
                   TERN_ERR_CONFIG, "more than 16 options");
}

CASE(a_source_is_joined_with_its_directory)
{
    static const struct {
        const char *source;
        const char *directory;
        const char *spec;
    } cases[] = {
        {"idx", "/data", "idx:/data"},
        {"idx,mean=0.3,std=0.4", "/data", "idx:/data,mean=0.3,std=0.4"},
        {"idx:/own", "/data", "idx:/own"},
        {"idx:/own", "", "idx:/own"},
        {"digits", "", "digits"},
        {"idx,mean=0.3", "/a,b", "idx:\"/a,b\",mean=0.3"},
        {"idx", "/a=\"b", "idx:\"/a=\"\"b\""},
        {"csv,label=a:b", "/d", "csv:/d,label=a:b"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char spec[TERN_DATA_SPEC_MAX];
        tern_data_spec_join(cases[i].source, cases[i].directory, spec);
        assert_string_equal(spec, cases[i].spec);
    }
}

CASE_WITH(generated_groups_are_named_by_an_option, folder_make, folder_remove)
{
    assert_int_equal(open_spec("sensors:train=30,test=10,devices=7"), TERN_OK);
    assert_int_equal(data.train.group_count, 7);
    assert_int_equal(data.train.feature_count, 24);
    assert_int_equal(data.test.class_count, 8);
    assert_non_null(data.test.groups);
    assert_int_equal(open_spec("audio:train=30,test=10"), TERN_OK);
    assert_int_equal(data.train.group_count, 30);
    assert_int_equal(data.train.height, 16);
    assert_int_equal(data.train.width, 32);
    assert_int_equal(data.train.class_count, 10);
    expect_refused("sensors:train=30,devices=31", TERN_ERR_CONFIG,
                   "devices=31 is not a whole number from 1 to 30");
    expect_refused("audio:devices=3", TERN_ERR_CONFIG,
                   "no option 'devices'; known: train, test, speakers, seed");
    expect_refused("sensors:mean=0.5", TERN_ERR_CONFIG, "no option 'mean'");
}

CASE_WITH(limits_hold_for_generated_data, folder_make, folder_remove)
{
    limits.max_bytes = 256 * 100;
    expect_refused("digits:train=99,test=2", TERN_ERR_TOO_LARGE, "101 examples of 256 values");
    assert_int_equal(open_spec("digits:train=98,test=2"), TERN_OK);
    expect_refused("sensors:train=266,test=1", TERN_ERR_TOO_LARGE, "267 examples of 24 values");
    assert_int_equal(open_spec("sensors:train=265,test=1"), TERN_OK);
}
